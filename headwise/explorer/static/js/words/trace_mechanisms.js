// @ts-check
/** Words of steps that the worked example lacks: norms, positions, other scores and weights; English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  lead_norm: [
    "Queries and keys are brought to one size before they meet, so that no score grows with their length.",
    "查询和键先统一大小再相乘，得分就不随其长度增长。",
  ],
  lead_turn: [
    "Each position turns its queries and keys, pair by pair of columns, by an angle of its own: their products then " +
      "depend on how far apart two tokens stand.",
    "每个位置把查询和键逐对列旋转一个自己的角度：点积于是取决于两个词元相距多远。",
  ],
  lead_features: [
    "The score does not compare query and key themselves but what it makes of each.",
    "得分比较的不是查询和键本身，而是由它们各自得出的向量。",
  ],
  lead_score_additive: [
    "Query part and key part are added, squashed by tanh, and summed with learned weights v: a small network scores " +
      "the pair.",
    "查询部分与键部分相加，经 tanh 压缩，再按学得的权重 v 求和：由一个小网络给这一对打分。",
  ],
  lead_score_leaky: [
    "Query and key are added, what is below 0 is made small (LeakyReLU), and the features are summed with learned " +
      "weights v: so a graph attention network scores two neighbours.",
    "查询与键相加，小于 0 的部分缩小（LeakyReLU），再按学得的权重 v 求和：图注意力网络这样给两个邻居打分。",
  ],
  lead_decay: [
    "How much of a key is left: less with each position between it and the query, nothing of keys behind it.",
    "一个键还剩多少：与查询每隔一个位置就少一些，查询之后的键不算。",
  ],
  lead_weights_softmax1: [
    "As softmax, with one more term in the sum, of score 0: a query that finds nothing keeps small weights.",
    "同 softmax，但和中多一项，其得分为 0：找不到合适的键时，权重都小。",
  ],
  lead_weights_top_k: [
    "Softmax over the largest scores of each row alone; all others get exactly 0.",
    "只对每行最大的几个得分作 softmax；其余恰为 0。",
  ],
  lead_weights_sparsemax: [
    "A threshold is taken off each score, and what is below 0 becomes exactly 0; the threshold is such that the rest " +
      "adds up to 1.",
    "每个得分减去一个阈值，小于 0 的恰为 0；阈值使余下的和为 1。",
  ],
  lead_weights_sigmoid: [
    "Each score by itself becomes a number between 0 and 1; rows need not add up to 1.",
    "每个得分单独变为 0 到 1 之间的数；每行之和不必为 1。",
  ],
  lead_weights_relu: [
    "What is below 0 becomes 0, the rest is divided by the number of keys; rows need not add up to 1.",
    "小于 0 的变为 0，其余除以键数；每行之和不必为 1。",
  ],
  lead_weights_relu2: [
    "What is below 0 becomes 0, the rest is squared and divided by the number of keys; rows need not add up to 1.",
    "小于 0 的变为 0，其余平方后除以键数；每行之和不必为 1。",
  ],
  lead_weights_identity: ["The scores themselves are the weights.", "得分本身就是权重。"],
  lead_weights_hard: ["The largest score of each row gets 1, all others 0.", "每行最大的得分得 1，其余为 0。"],
  lead_weights_share: [
    "Each product is divided by the sum of its row: the features stand in for the exponent of softmax.",
    "每个乘积除以所在行的和：特征代替了 softmax 的指数。",
  ],
  lead_weights_product: [
    "Each score times what is left of its key: weights are not shares, and may be below 0.",
    "得分乘以键的剩余：权重不是份额，可以小于 0。",
  ],
  factors_leaky: ["v × LeakyReLU(query part + key part)", "v × LeakyReLU(查询部分 + 键部分)"],
  factors_additive: ["v × tanh(query part + key part)", "v × tanh(查询部分 + 键部分)"],
  factors_rotation: ["column × cosine or sine", "列 × 余弦或正弦"],
  norm_mean: [
    "The mean of the {0} numbers of the row is taken off; then they are divided by the root of their mean square," +
      " and multiplied by a learned gain.",
    "先减去这一行 {0} 个数的均值，再除以均方根，最后乘以学得的增益。",
  ],
  norm_square: [
    "Divided by the root of the mean square of the {0} numbers of the row, and multiplied by a learned gain.",
    "除以这一行 {0} 个数的均方根，再乘以学得的增益。",
  ],
  way_less_threshold: ["less the threshold", "减阈值"],
  way_not_below: ["not below 0 = weight", "不小于 0 = 权重"],
  way_relu: ["not below 0", "不小于 0"],
  way_relu2: ["not below 0, squared", "不小于 0 的平方"],
  way_plus_bias: ["plus the bias", "加偏置"],
  way_sigmoid: ["1 / (1 + exp(−…)) = weight", "1 / (1 + exp(−…)) = 权重"],
  way_identity: ["weight", "权重"],
  way_hard: ["1 for the largest", "最大者为 1"],
  way_product: ["product", "乘积"],
  rule_sparsemax: [
    "max({0} − {1}, 0), where {1} = (sum of the {2} scores that stay − 1) / {2}",
    "max({0} − {1}, 0)，其中 {1} =（留下的 {2} 个得分之和 − 1）/ {2}",
  ],
  rule_relu: ["max({0}, 0) / {2} keys", "max({0}, 0) / {2} 个键"],
  rule_relu2: ["max({0}, 0)² / {2} keys", "max({0}, 0)² / {2} 个键"],
  rule_sigmoid: ["1 / (1 + exp(−({0} + ({1}))))", "1 / (1 + exp(−({0} + ({1}))))"],
  rule_identity: ["the score itself, {0}", "得分本身，{0}"],
  rule_hard: ["1 if {0} is the largest score, {1}; else 0", "若 {0} 是最大得分 {1} 则为 1，否则为 0"],
};
