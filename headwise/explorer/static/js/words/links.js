/** Words of links between tokens: English, Chinese. */

export const WORDS = {
  links_all: ["all", "全部"],
  heads_shown: ["Heads shown", "显示的头"],
  chip_note: [
    "Click: show or hide. Double click, or Shift and click: this head alone.",
    "点击：显示或隐藏。双击，或 Shift 加点击：只看此头。",
  ],
  links_note: [
    "Width is the weight; the blocks, by number of head, are the shares of the row or column that is drawn full.",
    "线宽即权重；色块上方为头的编号，色块为加深的那一行（列）在该头中的份额。",
  ],
  links_note_part: [
    "Width is the weight; the numbers are shares{0} of the row that is drawn full. Click a token to see its row.",
    "线宽即权重；数字为加深的那一行{0}的份额。点击词元可看它的一行。",
  ],
  links_note_row: ["Width is the weight; the numbers are shares of the row{0}.", "线宽即权重；数字为这一行{0}的份额。"],
  in_head: [" in {0}", "在{0}中"],
  with_head: [" with head {0}", "，同时显示第 {0} 头"],
  with_heads: [" with heads {0}", "，同时显示第 {0} 头"],
  comma: [", ", "、"],
  links_most: [
    "{0} of {1} links, the strongest that make {2} % of a row; all of those of the chosen token are drawn.",
    "{1} 条中的 {0} 条：占一行 {2} % 的最强连线；所选词元的连线全部画出。",
  ],
  links_mass: ["Share of each row", "每行的份额"],
  links_between: ["Sentences", "句子"],
  a_to_a: ["A to A", "A 到 A"],
  a_to_b: ["A to B", "A 到 B"],
  b_to_a: ["B to A", "B 到 A"],
  b_to_b: ["B to B", "B 到 B"],
};
