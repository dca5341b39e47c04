/** Words of what a layer needs, of similar heads and of what changes: English, Chinese. */

export const WORDS = {
  similar: ["How alike the heads are", "各头的相似程度"],
  similarnote: [
    "1 less the mean Jensen-Shannon distance of their rows; 1: the same. L2H1 is layer 2, head 1.",
    "1 减去各行 Jensen-Shannon 距离的均值；1 表示相同。L2H1 即第 2 层第 1 头。",
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
  similar_muted: ["muted: not compared", "已屏蔽：不作比较"],
  same_head: ["the same head", "同一个头"],
  similar_bar: ["similarity of two heads", "两个头的相似度"],
  similar_head: ["layer and head", "层与头"],
  layer_head_short: ["L{0}H{1}", "L{0}H{1}"],
  say_alike: ["Most alike are {0} and {1}: {2}.", "最相似的是 {0} 与 {1}：{2}。"],
  layer_alone: [
    "{0} alone: the heads of all layers are too many to compare at once. Choose another layer to compare its heads.",
    "仅 {0}：所有层的头太多，无法一次比较。选择其他层，即比较该层各头。",
  ],
  overinputs: ["Inputs compared: {0}.", "所用输入数：{0}。"],
  mutednote: [
    "Each head is muted alone. Heads that can stand in for each other look needless one by one.",
    "逐个单独屏蔽各头。可以互相替代的头，单独看都显得不重要。",
  ],
  say_most_needed: ["The answer changes most without {0}: {1} {2}.", "屏蔽 {0} 时，输出变化最大：{1} {2}。"],
  muted_divergence: [
    "KL divergence: how far the probabilities of the answer move without the head, 0 for not at all. Change of " +
      "log-probability: of the answer itself, below 0 where it becomes less likely.",
    "KL 散度：屏蔽该头后，输出的概率移动多远，0 表示不变。对数概率的变化：针对原来的输出，小于 0 表示其可能性降低。",
  ],
  muted_change: ["Change: how far the number that is answered moves.", "变化：所答数值的改变量。"],
  muteeach: ["Mute each head alone ({0} passes)", "逐个屏蔽（计算 {0} 次）"],
};
