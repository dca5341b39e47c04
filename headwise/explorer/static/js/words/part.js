// @ts-check
/** Words of the part of a large head that links show: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  part_rows: ["Rows {0} to {1} of {2}.", "第 {0} 至 {1} 行，共 {2} 行。"],
  part_keys: [
    "{0} of {1} keys, those with most weight: {2} of what these rows give in the head above. Numbers are positions.",
    "{1} 个键中的 {0} 个，即这些行最关注的：占上方注意力头中其权重的 {2}。括号内为位置。",
  ],
  part_links: ["{0} of {1} links: those between these tokens.", "{1} 条中的 {0} 条：这些词元之间的连线。"],
  rows_before: ["← Rows before", "← 前面的行"],
  rows_after: ["Rows after →", "后面的行 →"],
};
