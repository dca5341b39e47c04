// @ts-check
/** Words of the search for a head and of the table of heads: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  sharpest: ["sharpest", "最集中"],
  evenest: ["most even", "最平均"],
  keys_a_row: ["{0} keys a row", "每行 {0} 个键"],
  layer_n: ["layer {0}", "第 {0} 层"],
  find_limit: [
    "Mean share of a row, read from this input only. A hint, no proof:",
    "为每行的平均份额，只据这一个输入。是线索，不是证明：",
  ],
  mute_see: ["mute layer {0}, head {1}, and see", "屏蔽第 {0} 层第 {1} 头再看"],
  heads_in_numbers: ["Heads in numbers: {0}", "各头的数值：{0}"],
  heads_table_note: [
    "Means over the rows of this input; a bar is a share of the largest number of its column, which is bold. Click a" +
      " title to sort, a head to choose it.",
    "均为本次输入各行的均值；条长为该值占本列最大值的比例，最大值加粗。点击列名排序，点击头的编号选中它。",
  ],
};
