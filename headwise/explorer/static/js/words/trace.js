/** Words of the page Trace: English, Chinese. */

export const WORDS = {
  attends: ["How {0} attends to {1}", "{0} 怎样注意 {1}"],
  textbook: ["Textbook 3 × 4", "课本 3 × 4"],
  this_run: ["This run", "此模型"],
  source_of_numbers: ["What is traced", "算什么"],
  textbook_note: [
    "Textbook example: three inputs of four numbers, one head of width 3. Model and input above play no part in it.",
    "课本例子：三个输入，各四个数；一个头，宽 3。与上方的模型和输入无关。",
  ],
  type_own: ["Type an input above to trace your own.", "在上面输入文本，即可逐步计算自己的例子。"],
  query_token: ["From", "从"],
  key_token: ["to", "到"],
  thread: ["Steps of one number", "一个数的各步"],
  worked: ["One number worked by hand", "一个数的算法"],
  terms: ["Terms", "各项"],
  step_back: ["Back", "上一步"],
  step_on: ["Next", "下一步"],
  vectors_columns: ["Vectors as columns", "向量作列"],
  settings: ["Settings", "设置"],
  off: ["off", "关"],
  key: ["key", "键"],
  sum: ["sum", "和"],
  output: ["output", "输出"],
  largest_first: ["Largest first", "从大到小"],
  count_numbers: ["{0} numbers", "{0} 个数"],
  trace_hint: [
    "Blue: below zero; orange: above. Weights: blue, the stronger the larger; ·: below .0005. " +
      "Click any cell: its number is worked. Arrows move in a matrix; outside, ← → change the step.",
    "蓝：小于零；橙：大于零。权重：蓝，越浓越大；·：小于 .0005。" +
      "点任一格，看这个数的算法。方向键在矩阵内移动；在矩阵外 ← → 换步。",
  ],
  hint_asked: ["?: asked below.", "?：下面的题目所问。"],
  trace_nodes: [
    "Nodes of a graph have a page of their own: {0}. Below, the textbook's example goes step by step.",
    "图的节点另有一页：{0}。下面是逐步计算的课本例子。",
  ],
  trace_node: [
    "{1} nodes: too many pairs to trace at once. See this node on the page {0}; below, the textbook's example.",
    "{1} 个节点：配对太多，无法逐步计算。请在“{0}”页看这个节点；下面是课本例子。",
  ],
  exact_terms: [
    "Computed in double precision from the inputs and parameters of the layer, so that all terms add up.",
    "由该层的输入和参数以双精度算出，各项之和分毫不差。",
  ],
  // the links of the thread
  link_input: ["Input", "输入"],
  link_project: ["Q, K, V", "Q、K、V"],
  link_score: ["Score", "得分"],
  link_products: ["Product q·k", "点积 q·k"],
  link_scale: ["Scale", "缩放"],
  link_mask: ["Mask", "掩码"],
  link_temper: ["Temperature", "温度"],
  link_weights: ["Weights", "权重"],
  link_mix: ["Weighted values", "加权的值"],
  link_out: ["Output", "输出"],
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
  lead_score_dot: [
    "Multiply query and key number by number; add up. Large: the key fits the query.",
    "查询与键逐个相乘再相加。和越大，键越符合查询的要求。",
  ],
  lead_scale: [
    "Sums of {1} products grow with the width; divided by √{1} = {2} they keep their size, and softmax does not stick" +
      " to a single key.",
    "{1} 个乘积之和随宽度变大；除以 √{1} = {2} 后大小不变，softmax 不会只认一个键。",
  ],
  lead_scale_none: [
    "Nothing is divided here: the products are the scores. Switch ÷ √{1} on and see what changes.",
    "这里不作除法：点积就是得分。打开 ÷ √{1}，看有什么变化。",
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
  lead_weights_softmax: [
    "Exponents make all scores positive, the sum makes them shares: each row adds up to 1. The largest score is" +
      " taken off first, so that no exponent overflows; the shares stay the same.",
    "指数使得分都为正，除以和使之成为份额：每行之和为 1。先减去最大的得分，指数就不会溢出；份额不变。",
  ],
  lead_mix: [
    "Each value is multiplied by its weight. Click a column: the output of {0} is the sum down that column.",
    "每个值乘以它的权重。点一列：{0} 的输出就是这一列的和。",
  ],
  lead_out: [
    "The sum of the weighted values is what this head returns for each query.",
    "加权的值之和，就是这个头为每个查询给出的结果。",
  ],
  scale_none: ["The scale is off: the score stays {0}.", "缩放已关：得分仍为 {0}。"],
  is_given: ["Nothing is worked here: this is what the layer is given.", "这里不用计算：这就是该层的输入。"],
  allowed: ["allowed", "允许"],
  mask_none: ["Allowed: the score stays {0}.", "允许：得分仍为 {0}。"],
  // what a matrix holds
  what_input: ["rows that ask", "提问的行"],
  what_query: ["queries: what each asks", "查询：问什么"],
  what_key: ["keys: what each is found by", "键：凭什么被找到"],
  what_value: ["values: what each hands on", "值：交出什么"],
  what_products: ["products", "点积"],
  what_scores: ["scores", "得分"],
  what_scaled: ["scores", "得分"],
  what_masked: ["after the mask", "掩码之后"],
  what_tempered: ["divided by the temperature", "除以温度之后"],
  what_weights: ["weights", "权重"],
  "what_weighted values": ["each times its weight for {0}", "各乘以 {0} 给它的权重"],
  what_output: ["output of the head", "此头的输出"],
  sums: ["{0} products: {1}. Positive ones add {2}, negative ones {3}.", "{0} 个乘积：{1}。正的共 {2}，负的共 {3}。"],
  and_bias: ["The bias adds {0}.", "偏置为 {0}。"],
  factors_dot: ["query × key", "查询 × 键"],
  factors_linear: ["input × weight", "输入 × 权重"],
  mask_hides: ["the mask hides {1} from {0}:", "掩码对 {0} 遮住 {1}："],
  mask_allows: ["allowed, unchanged:", "允许，不变："],
  way_less_largest: ["− max", "− 最大"],
  way_power: ["exp", "exp"],
  way_by_sum: ["÷ sum = weight", "÷ 和 = 权重"],
  way_weight: ["weight a", "权重 a"],
  way_value: ["v, column {0}", "v，第 {0} 列"],
  way_so_far: ["sum so far", "累计"],
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
