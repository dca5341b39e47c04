/** Words of the part of a large head that links show: English, Chinese. */

export const WORDS = {
  part_rows: ["Rows {0} to {1} of {2}.", "第 {0} 至 {1} 行，共 {2} 行。"],
  part_keys: [
    "{0} of {1} keys: the largest of the rows drawn, which hold {2} of the row of {3}. In brackets: positions.",
    "{1} 个键中的 {0} 个，即所画各行中权重最大的键，占 {3} 这一行的 {2}。括号内为位置。",
  ],
  part_keys_all: [
    "{0} of {1} keys: the largest of the rows drawn, which hold {2} of these rows. In brackets: positions.",
    "{1} 个键中的 {0} 个，即所画各行中权重最大的键，占这些行的 {2}。括号内为位置。",
  ],
  rows_before: ["← Rows before", "← 前面的行"],
  rows_after: ["Rows after →", "后面的行 →"],
};
