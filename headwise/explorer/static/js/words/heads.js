/** Words of the search for a head and of the table of heads: English, Chinese. */

export const WORDS = {
  sharpest: ["sharpest", "最集中"],
  evenest: ["most even", "最平均"],
  keys_a_row: ["{0} keys a row", "每行 {0} 个键"],
  evenly: ["evenly: {0}", "均匀时 {0}"],
  evenly_note: [
    "Evenly: what a head that looks everywhere alike gives to a single key.",
    "均匀时：处处同等关注的头给单个键的份额。",
  ],
  layer_n: ["layer {0}", "第 {0} 层"],
  find_limit: [
    "Numbers are means over the rows of this input alone. A hint, no proof.",
    "数值为各行的平均，仅据这一个输入；只是线索，并非证明。",
  ],
  mute_see: ["Mute layer {0}, head {1}, and see", "屏蔽第 {0} 层第 {1} 头再看"],
  heads_muted: ["Muted, and so left out: {0}.", "已屏蔽，不计入：{0}。"],
  unedit: ["Undo", "撤销"],
  is_muted: ["muted", "已屏蔽"],
  unmute: ["Unmute layer {0}, head {1}", "取消屏蔽第 {0} 层第 {1} 头"],
  heads_in_numbers: ["Heads in numbers: {0}", "各头的数值：{0}"],
  meaning_entropy: ["Entropy: how spread a row is, 0 for a single key.", "熵：一行的分散程度，只看一个键时为 0。"],
  meaning_effective: [
    "Keys looked at: over how many keys, evenly, a row would be as spread.",
    "有效键数：相当于均匀地看多少个键。",
  ],
  meaning_distance: ["Distance: from a token to what it looks at.", "距离：词元与其所看位置之间。"],
  meaning_first: ["First key: the share of the first key.", "首个键：第一个键所占的份额。"],
  meaning_largest: ["Largest weight: of each row.", "最大权重：每行中最大的一个。"],
  meaning_shares: ["The other columns: the share of these keys.", "其余各列：这些键所占的份额。"],
  heads_table_note: [
    "Bars of shares go to 1, others to the largest number of their column. Bold: the only largest of its column.",
    "占比以 1 为满条，其余以本列最大值为满条；加粗的是本列中唯一的最大值。",
  ],
  heads_table_meant: ["What the columns mean", "各列的含义"],
  heads_table_use: [
    "Means over the rows of this input. Click a title to sort, a head to choose it.",
    "均为本次输入各行的均值。点击列名排序，点击头的编号选中它。",
  ],
  say_apart: [
    "Most spread: {0}, over {1} keys a row; least: {2}, over {3}.",
    "最分散的是{0}，每行约 {1} 个键；最集中的是{2}，约 {3} 个。",
  ],
};
