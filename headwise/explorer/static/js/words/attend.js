// @ts-check
/** Words of the page Attend: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  say_cross: ["To write {0}, this head takes {1} of its values from {2}.", "写出 {0} 时，此头 {1} 的值取自 {2}。"],
  say_self: ["At {0}, this head takes {1} of its values from {2}.", "在 {0} 处，此头 {1} 的值取自 {2}。"],
  say_pooled: [
    "For the answer {0}, this head takes {1} of its values from {2}.",
    "对于输出 {0}，此头 {1} 的值取自 {2}。",
  ],
  say_rollout: ["Through all layers, {0} takes {1} from {2}.", "贯穿各层，{0} 有 {1} 取自 {2}。"],
  say_hidden: ["{0} cannot attend to {2}: the mask hides it.", "{0} 不能关注 {2}：掩码将其遮住。"],
  watch_written: ["Watch it being written →", "看它逐词写出 →"],
  see_made: ["See how this number is made →", "看这个数怎样算出来 →"],
  diagonal: ["own position", "自身位置"],
  previous: ["previous position", "前一位置"],
  next: ["next position", "后一位置"],
  separator: ["separators", "分隔符"],
  // one head of many
  find: ["Find a head", "找一个头"],
  finds_previous: ["previous token", "前一个词元"],
  finds_next: ["next token", "后一个词元"],
  finds_diagonal: ["itself", "自己"],
  finds_first: ["first token", "第一个词元"],
  finds_separator: ["separators", "分隔符与标点"],
  finds_same: ["same word elsewhere", "别处的同一词"],
  finds_induction: ["after the same word (induction)", "同一词之后（归纳）"],
  sharpest: ["sharpest", "最集中"],
  evenest: ["most even", "最平均"],
  keys_a_row: ["{0} keys a row", "每行 {0} 个键"],
  layer_n: ["layer {0}", "第 {0} 层"],
  find_limit: [
    "Mean share of a row, read from this input only. A hint, no proof:",
    "为每行的平均份额，只据这一个输入。是线索，不是证明：",
  ],
  mute_see: ["mute layer {0}, head {1}, and see", "屏蔽第 {0} 层第 {1} 头再看"],
  // links
  heads_shown: ["Heads shown", "显示的头"],
  chip_note: [
    "Click: show or hide. Double click, or Shift and click: this head alone.",
    "点击：显示或隐藏。双击，或 Shift 加点击：只看此头。",
  ],
  links_note: [
    "Width is the weight; the blocks beside a word are its share in each head.",
    "线宽即权重；词旁的色块为它在各头中的份额。",
  ],
  links_cut: [
    "{0} of {1} links: each row is drawn until {2} % of its weight is shown.",
    "{1} 条中的 {0} 条：每行画到累计权重 {2} % 为止。",
  ],
  links_most: [
    "{0} of {1} links, the strongest that make {2} % of a row; all of those of the chosen token are drawn.",
    "{1} 条中的 {0} 条：占一行 {2} % 的最强连线；所选词元的连线全部画出。",
  ],
  links_mass: ["Share of each row", "每行的份额"],
  links_between: ["Sentences", "句子"],
  links_all: ["all", "全部"],
  a_to_a: ["A to A", "A 到 A"],
  a_to_b: ["A to B", "A 到 B"],
  b_to_a: ["B to A", "B 到 A"],
  b_to_b: ["B to B", "B 到 B"],
  // text
  direction: ["Direction", "方向"],
  direction_queries: ["what a token attends to", "词元看什么"],
  direction_keys: ["what attends to a token", "什么在看词元"],
  tint_row: ["What {0} attends to: these weights sum to 1.", "{0} 在看什么：这些权重之和为 1。"],
  tint_column: [
    "What attends to {0}: on average {1} of a row. A column need not sum to 1.",
    "什么在看 {0}：平均占一行的 {1}。一列之和不必为 1。",
  ],
  largest: ["largest weight", "最大权重"],
  heads_in_numbers: ["Heads in numbers: {0}", "各头的数值：{0}"],
  heads_table_note: [
    "Means over the rows of this input; a bar is a share of the largest number of its column, which is bold. Click a" +
      " title to sort, a head to choose it.",
    "均为本次输入各行的均值；条长为该值占本列最大值的比例，最大值加粗。点击列名排序，点击头的编号选中它。",
  ],
  similar: ["How alike the heads are", "各头的相似程度"],
  similarnote: [
    "1 less the mean Jensen-Shannon distance of their rows; 1: the same. Labels are layer.head, counted from 1.",
    "1 减去各行 Jensen-Shannon 距离的均值；1 表示相同。标签为 层.头，从 1 计数。",
  ],
  compareinputs: ["Compare over these inputs", "在这些输入上比较"],
  toomanyinputs: [
    "At most 64 inputs are compared at once: take some lines out.",
    "一次最多比较 64 个输入：请删去一些行。",
  ],
  onlytyped: [
    "This is of the input above alone: several inputs are compared, and heads muted one by one, where inputs " +
      "are typed.",
    "仅针对上面的输入：只有可输入文本的模型才能比较多个输入、逐个屏蔽各头。",
  ],
  similar_bar: ["similarity of two heads", "两个头的相似度"],
  say_alike: ["Most alike are {0} and {1}: {2}.", "最相似的是 {0} 与 {1}：{2}。"],
  overinputs: ["Inputs compared:", "所用输入数："],
  muted: ["What each head does for the answer", "每个头对输出的作用"],
  mutednote: [
    "Each head is muted alone. Heads that can stand in for each other look needless one by one.",
    "逐个单独屏蔽各头。可以互相替代的头，单独看都显得不重要。",
  ],
  muteeach: ["Mute each head alone", "逐个屏蔽"],
  ended: ["Stopped.", "已停止。"],
  finished: ["Finished.", "已完成。"],
  inputs: ["Inputs, one a line", "输入，每行一个"],
  // a long input
  blocks_max: ["Largest", "最大值"],
  blocks_mean: ["Means", "均值"],
  block_max: ["largest", "最大"],
  block_mean: ["mean", "均值"],
  block_bar: ["weight of a block", "块的权重"],
  long_max: ["Each cell is the largest of {0} × {0} weights,", "每格为 {0} × {0} 个权重中的最大值，"],
  long_mean: ["Each cell is the mean of {0} × {0} weights,", "每格为 {0} × {0} 个权重的均值，"],
  long_exact: ["Each cell is one exact weight,", "每格为一个精确权重，"],
  long_of: [
    "of {0}; zoom in for single weights, click for an exact row.",
    "共 {0}；放大可见单个权重，点击可读精确的一行。",
  ],
  long_row: ["of {0}; click for an exact row.", "共 {0}；点击可读精确的一行。"],
  long_find: [
    "Not of an input this long: it needs all weights of all heads at once. Give a shorter input.",
    "输入过长，无法给出：这需要同时计算所有头的全部权重。请给出较短的输入。",
  ],
  long_map_alone: [
    "{0} is not shown of an input this long. The heatmap shows all of it; or give a shorter input.",
    "输入过长，无法显示“{0}”。热图可显示全部；或给出较短的输入。",
  ],
  stage_weights: ["Weights", "权重"],
  stage_scores: ["Raw scores", "原始得分"],
  // sub-words, special tokens, zoom, changed steps, keys
  merge: ["Merge sub-words", "合并子词"],
  merged_note: [
    "sub-words are merged: weights are summed over keys and averaged over queries",
    "子词已合并：对键求和，对查询取平均",
  ],
  special_show: ["shown", "显示"],
  special_hide: ["hidden", "隐藏"],
  special_share: ["hidden, rows add up", "隐藏并归一"],
  hidden_note: ["special tokens are hidden: of a row is left, on average,", "特殊词元已隐藏：每行平均剩余"],
  shared_note: [
    "special tokens are hidden, and the rest of each row is scaled to the sum it had",
    "特殊词元已隐藏，每行其余部分按原来的总和归一",
  ],
};
