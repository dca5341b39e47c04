/** Words of steps that the worked example lacks: norms, positions, other scores and weights; English, Chinese. */

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
  exact: [
    "The output that its kernel gave in the model differs by at most {0}.",
    "模型中内核给出的输出与此最多相差 {0}。",
  ],
  inexact: [
    "Computed in double precision. The output that the kernel gave in the model differs by up to {0}: the model " +
      "computes in a shorter number type.",
    "以双精度算出。模型中内核给出的输出与此最多相差 {0}：模型用较短的数型计算。",
  ],
  as_recorded: [
    "The output is as the layer gave it: it is more than the sum of the weighted values, or in a shorter number type.",
    "输出为该层实际给出的值：它不只是加权值之和，或用较短的数型算出。",
  ],
  link_norm: ["Norm", "归一化"],
  link_turn: ["Position", "位置"],
  link_features: ["Features", "特征"],
  link_added: ["Added", "加偏置"],
  link_decay: ["Decay", "衰减"],
  link_changed: ["Changed", "修改后"],
  link_layer: ["All heads", "各头合并"],
  lead_score: ["A number for each pair of query and key.", "每一对查询和键得一个数。"],
  lead_added: [
    "What is known of the two positions, or what the caller gives, is added to the score of the pair.",
    "把两个位置的信息（或调用者给的数）加到这一对的得分上。",
  ],
  lead_weights: [
    "What each value counts for each query. This way is not shown term by term here.",
    "每个值对每个查询的分量。这里不逐项显示其算法。",
  ],
  lead_changed: [
    "The weights that count, after what was changed on the page Attend.",
    "在“注意力”页修改之后实际使用的权重。",
  ],
  lead_layer: [
    "The outputs of all heads stand side by side, and one more matrix mixes them into what the layer returns.",
    "各头的输出并排放好，再由一个矩阵合成这一层的结果。",
  ],
  what_memory: ["rows that answer: another sequence", "回答的行：另一个序列"],
  "what_plain query": ["queries as projected", "投影得到的查询"],
  "what_plain key": ["keys as projected", "投影得到的键"],
  "what_normed query": ["queries after the norm", "归一化之后的查询"],
  "what_normed key": ["keys after the norm", "归一化之后的键"],
  "what_query features": ["features of the queries", "查询的特征"],
  "what_key features": ["features of the keys", "键的特征"],
  "what_score query": ["what the score makes of the queries", "得分由查询得出的向量"],
  "what_score key": ["what the score makes of the keys", "得分由键得出的向量"],
  "what_query part": ["the queries in the sum", "和中的查询部分"],
  "what_key part": ["the keys in the sum", "和中的键部分"],
  "what_query vectors": ["what reads the state", "读取状态的向量"],
  "what_key vectors": ["where the state takes up a value", "状态存入值的方向"],
  "what_log decays": ["what is left of the state, as a logarithm", "状态剩余比例的对数"],
  "what_read vectors": ["what is read of the state to be erased", "读出后将被擦除的向量"],
  "what_erase vectors": ["where that is taken off", "擦除的方向"],
  "what_log gates": ["logarithm of what the tokens so far leave of a score", "至此各词元给得分留下的比例的对数"],
  what_directions: ["the direction along which each token reflects", "每个词元反射的方向"],
  what_strengths: ["how strongly each token reflects", "每个词元反射的强度"],
  "what_block weights": ["what the summary of each block counts", "每个块的摘要所占的权重"],
  "what_branch gates": ["how much of summaries, blocks and window", "摘要、所选块与窗口各取多少"],
  what_levels: ["what each query makes of each level", "查询给每一层的权重"],
  what_blocks: ["blocks that each query sees", "每个查询看到的块"],
  what_bias: ["added to the scores", "加到得分上的数"],
  what_relative: ["added by the distance of a pair", "按两者距离加的数"],
  what_biased: ["scores with all that is added", "加完之后的得分"],
  what_decay: ["what is left of each key", "每个键的剩余"],
  "what_changed weights": ["weights after the change", "修改后的权重"],
  what_joined: ["all heads side by side; this head: columns {0} to {1}", "各头并排；此头：第 {0} 至 {1} 列"],
  "what_layer output": ["what the layer returns", "这一层的结果"],
  join_own: ["column {0} of this head:", "此头的第 {0} 列："],
  join_other: ["from another head:", "来自另一个头："],
  no_terms: [
    "Computed from these rows by the formula above; its terms are not listed here.",
    "由以下各行按上式算出；这里不列出各项。",
  ],
  reach: ["Keys behind the query do not count.", "查询之后的键不算。"],
  way_by_count: ["÷ keys = weight", "÷ 键数 = 权重"],
  all_numbers: ["Numbers in all {0} columns", "显示全部 {0} 列的数"],
  colours_only: ["Colours only", "只看颜色"],
  // the worked number
  more_terms: [" + … ({0} terms)", " + …（共 {0} 项）"],
};
