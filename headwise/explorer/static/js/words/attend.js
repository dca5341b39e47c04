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
  row_of: ["The row of {0}", "{0} 这一行"],
  see_made: ["See how this number is made →", "看这个数怎样算出来 →"],
  effective: ["keys looked at", "有效键数"],
  diagonal: ["own place", "对角"],
  previous: ["place before", "前一位置"],
  largest: ["largest", "最大"],
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
  rows_columns: ["row: layer, column: head", "行：层，列：头"],
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
