// @ts-check
/** Words of the page Trace: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  attends: ["How {0} attends to {1}", "{0} 怎样注意 {1}"],
  textbook: ["Textbook 3 × 4", "课本 3 × 4"],
  this_run: ["This run", "此模型"],
  source_of_numbers: ["What is traced", "算什么"],
  textbook_note: [
    "Textbook example: three inputs of four numbers, one head of width 3",
    "课本例子：三个输入，各四个数；一个头，宽 3",
  ],
  type_own: ["Type an input above to trace your own.", "在上面输入文本，即可逐步计算自己的例子。"],
  query_token: ["From", "从"],
  key_token: ["to", "到"],
  thread: ["Steps of one number", "一个数的各步"],
  worked: ["One number worked by hand", "一个数的算法"],
  terms: ["Terms", "各项"],
  step_back: ["Back", "上一步"],
  step_on: ["Next", "下一步"],
  off: ["off", "关"],
  key: ["key", "键"],
  sum: ["sum", "和"],
  output: ["output", "输出"],
  all_numbers: ["Numbers in all {0} columns", "显示全部 {0} 列的数"],
  colours_only: ["Colours only", "只看颜色"],
  largest_first: ["Largest first", "从大到小"],
  count_numbers: ["{0} numbers", "{0} 个数"],
  trace_hint: [
    "Blue: below zero; orange: above; the stronger, the larger a weight; · is below .0005. Click any cell: its " +
      "number is worked. Arrows move inside a matrix, ← → outside of one go from step to step; hover for five digits.",
    "蓝：小于零；橙：大于零；颜色越浓权重越大；· 表示小于 .0005。点任一格，看这个数的算法。方向键在矩阵内移动，" +
      "在矩阵之外 ← → 换步；悬停看五位数。",
  ],
  exact: [
    "Computed in double precision from the inputs and parameters of the layer, so that all terms add up. The output " +
      "that its kernel gave in the model differs by at most {0}.",
    "由该层的输入和参数以双精度算出，各项之和分毫不差。模型中内核给出的输出与此最多相差 {0}。",
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
  // the links of the thread
  link_input: ["Input", "输入"],
  link_project: ["Q, K, V", "Q、K、V"],
  link_norm: ["Norm", "归一化"],
  link_turn: ["Position", "位置"],
  link_features: ["Features", "特征"],
  link_score: ["Score", "得分"],
  link_products: ["Product q·k", "点积 q·k"],
  link_scale: ["Scale", "缩放"],
  link_added: ["Added", "加偏置"],
  link_mask: ["Mask", "掩码"],
  link_temper: ["Temperature", "温度"],
  link_decay: ["Decay", "衰减"],
  link_weights: ["Weights", "权重"],
  link_changed: ["Changed", "修改后"],
  link_mix: ["Weighted values", "加权的值"],
  link_out: ["Output", "输出"],
  link_layer: ["All heads", "各头合并"],
  // what happens in each; {0} query, {1} width, {2} its square root, {3} key
  lead_input: [
    "Each token arrives as a row of numbers, changed by the layers below. Queries are made from one side, keys and " +
      "values from the other; in self-attention both are the same.",
    "每个词元以一行数的形式到来，已由下面各层处理。查询由一边得出，键和值由另一边得出；自注意力中两边相同。",
  ],
  lead_project: [
    "Learned matrices turn each row into a query, a key and a value. Click any cell to see the products that make it.",
    "学得的矩阵把每一行变成查询、键和值。点任一格，看它由哪些乘积得来。",
  ],
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
  lead_score_dot: [
    "Multiply query and key number by number; add up. Large: the key fits the query.",
    "查询与键逐个相乘再相加。和越大，键越符合查询的要求。",
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
  lead_score: ["A number for each pair of query and key.", "每一对查询和键得一个数。"],
  lead_scale: [
    "Sums of {1} products grow with the width; divided by √{1} = {2} they keep their size, and softmax does not stick" +
      " to a single key.",
    "{1} 个乘积之和随宽度变大；除以 √{1} = {2} 后大小不变，softmax 不会只认一个键。",
  ],
  lead_scale_none: [
    "Nothing is divided here: the products are the scores. Switch ÷ √{1} on and see what changes.",
    "这里不作除法：点积就是得分。打开 ÷ √{1}，看有什么变化。",
  ],
  lead_added: [
    "What is known of the two positions, or what the caller gives, is added to the score of the pair.",
    "把两个位置的信息（或调用者给的数）加到这一对的得分上。",
  ],
  lead_mask: [
    "A pair that the mask forbids gets −∞, so its weight becomes exactly 0.",
    "被掩码禁止的配对得 −∞，权重恰为 0。",
  ],
  lead_mask_none: ["No mask here: every pair counts.", "这里没有掩码：每一对都算。"],
  lead_temper: [
    "All scores are divided by the temperature: below 1 the largest weight grows, above 1 the weights become alike.",
    "所有得分除以温度：小于 1 时最大的权重变大，大于 1 时各权重趋于相同。",
  ],
  lead_decay: [
    "How much of a key is left: less with each position between it and the query, nothing of keys behind it.",
    "一个键还剩多少：与查询每隔一个位置就少一些，查询之后的键不算。",
  ],
  lead_weights_softmax: [
    "Exponents make all scores positive, the sum makes them shares: each row adds up to 1. The largest score is" +
      " taken off first, so that no exponent overflows; the shares stay the same.",
    "指数使得分都为正，除以和使之成为份额：每行之和为 1。先减去最大的得分，指数就不会溢出；份额不变。",
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
  lead_weights: [
    "What each value counts for each query. This way is not shown term by term here.",
    "每个值对每个查询的分量。这里不逐项显示其算法。",
  ],
  lead_changed: [
    "The weights that count, after what was changed on the page Attend.",
    "在“注意力”页修改之后实际使用的权重。",
  ],
  lead_mix: [
    "Each value is multiplied by its weight. Click a column: the output of {0} is the sum down that column.",
    "每个值乘以它的权重。点一列：{0} 的输出就是这一列的和。",
  ],
  lead_out: [
    "The sum of the weighted values is what this head returns for each query.",
    "加权的值之和，就是这个头为每个查询给出的结果。",
  ],
  lead_layer: [
    "The outputs of all heads stand side by side, and one more matrix mixes them into what the layer returns.",
    "各头的输出并排放好，再由一个矩阵合成这一层的结果。",
  ],
  scale_none: ["The scale is off: the score stays {0}.", "缩放已关：得分仍为 {0}。"],
  mask_none: ["Allowed: the score stays {0}.", "允许：得分仍为 {0}。"],
  // what a matrix holds
  what_input: ["rows that ask", "提问的行"],
  what_memory: ["rows that answer: another sequence", "回答的行：另一个序列"],
  "what_plain query": ["queries as projected", "投影得到的查询"],
  "what_plain key": ["keys as projected", "投影得到的键"],
  "what_normed query": ["queries after the norm", "归一化之后的查询"],
  "what_normed key": ["keys after the norm", "归一化之后的键"],
  what_query: ["queries: what each asks", "查询：问什么"],
  what_key: ["keys: what each is found by", "键：凭什么被找到"],
  what_value: ["values: what each hands on", "值：交出什么"],
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
  what_products: ["products", "点积"],
  what_scores: ["scores", "得分"],
  what_scaled: ["scores", "得分"],
  what_bias: ["added to the scores", "加到得分上的数"],
  what_relative: ["added by the distance of a pair", "按两者距离加的数"],
  what_biased: ["scores with all that is added", "加完之后的得分"],
  what_masked: ["after the mask", "掩码之后"],
  what_tempered: ["divided by the temperature", "除以温度之后"],
  what_decay: ["what is left of each key", "每个键的剩余"],
  what_weights: ["weights", "权重"],
  "what_changed weights": ["weights after the change", "修改后的权重"],
  "what_weighted values": ["each times its weight for {0}", "各乘以 {0} 给它的权重"],
  what_output: ["output of the head", "此头的输出"],
  what_joined: ["all heads side by side", "各头并排"],
  "what_layer output": ["what the layer returns", "这一层的结果"],
  // the worked number
  more_terms: [" + … ({0} terms)", " + …（共 {0} 项）"],
  sums: ["{0} products: {1}. Positive ones add {2}, negative ones {3}.", "{0} 个乘积：{1}。正的共 {2}，负的共 {3}。"],
  and_bias: ["The bias adds {0}.", "偏置为 {0}。"],
  factors_dot: ["query × key", "查询 × 键"],
  factors_leaky: ["v × LeakyReLU(query part + key part)", "v × LeakyReLU(查询部分 + 键部分)"],
  factors_linear: ["input × weight", "输入 × 权重"],
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
  mask_hides: ["the mask hides {1} from {0}:", "掩码对 {0} 遮住 {1}："],
  mask_allows: ["allowed, unchanged:", "允许，不变："],
  join_own: ["column {0} of this head:", "此头的第 {0} 列："],
  join_other: ["from another head:", "来自另一个头："],
  no_terms: [
    "Computed from these rows by the formula above; its terms are not listed here.",
    "由以下各行按上式算出；这里不列出各项。",
  ],
  reach: ["Keys behind the query do not count.", "查询之后的键不算。"],
  way_less_largest: ["less the largest", "减最大"],
  way_power: ["exp", "exp"],
  way_by_sum: ["÷ sum = weight", "÷ 和 = 权重"],
  way_less_threshold: ["less the threshold", "减阈值"],
  way_not_below: ["not below 0 = weight", "不小于 0 = 权重"],
  way_relu: ["not below 0", "不小于 0"],
  way_relu2: ["not below 0, squared", "不小于 0 的平方"],
  way_by_count: ["÷ keys = weight", "÷ 键数 = 权重"],
  way_plus_bias: ["plus the bias", "加偏置"],
  way_sigmoid: ["1 / (1 + exp(−…)) = weight", "1 / (1 + exp(−…)) = 权重"],
  way_identity: ["weight", "权重"],
  way_hard: ["1 for the largest", "最大者为 1"],
  way_product: ["product", "乘积"],
  way_weight: ["weight a", "权重 a"],
  way_value: ["value v, column {0}", "值 v，第 {0} 列"],
  way_so_far: ["sum so far", "累计"],
  rule_sparsemax: [
    "max({0} − {1}, 0), where {1} = (sum of the {2} scores that stay − 1) / {2}",
    "max({0} − {1}, 0)，其中 {1} =（留下的 {2} 个得分之和 − 1）/ {2}",
  ],
  rule_relu: ["max({0}, 0) / {2} keys", "max({0}, 0) / {2} 个键"],
  rule_relu2: ["max({0}, 0)² / {2} keys", "max({0}, 0)² / {2} 个键"],
  rule_sigmoid: ["1 / (1 + exp(−({0} + ({1}))))", "1 / (1 + exp(−({0} + ({1}))))"],
  rule_identity: ["the score itself, {0}", "得分本身，{0}"],
  rule_hard: ["1 if {0} is the largest score, {1}; else 0", "若 {0} 是最大得分 {1} 则为 1，否则为 0"],
  // what is supposed
  temperature: ["Temperature", "温度"],
  mask_causal: ["causal mask", "因果掩码"],
  mask_padding: ["padding mask", "填充掩码"],
  hides: ["pairs hidden: {0}", "隐藏的配对：{0}"],
  as_it_was: ["Back to what the model did", "恢复为模型的计算"],
  supposed_note: [
    "This is no longer what the model did: these steps are recomputed with what is set above.",
    "这已不是模型的实际计算：以下步骤按上面的设置重新计算。",
  ],
  exercises: ["Exercises", "练习"],
};
