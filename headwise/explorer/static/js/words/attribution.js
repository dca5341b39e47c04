// @ts-check
/** Words of what counts by a method: English, Chinese; {0} is what the server says in English. */

export const WORDS = {
  by_map: ["{0}: {1}", "{0}：{1}"],
  by_working: ["{0}: computing …", "{0}：计算中……"],
  by_no_places: ["{0} gives no number for each place of this picture.", "{0}没有为这幅图的每个位置给出数值。"],
  mean_of_outputs: ["the mean of all outputs", "所有输出的平均"],
  say_place: ["For {0}, {1} counts {2}.", "对 {0} 而言，{1} 的作用为 {2}。"],
  by_part: ["Places by size (row, column)", "按大小排列的图块（行, 列）"],
  by_sum: ["sum over the image", "整幅图之和"],
  // {0}: the row, {1}: the column, {2}: the number
  say_by: ["Of all that counts for {0}, {2} comes from {1}.", "对 {0} 起作用的一切中，{2} 来自 {1}。"],
  say_by_norms: ["By norms, {1} gives {2} of what {0} receives.", "按范数，{0} 所得的 {2} 来自 {1}。"],
  say_by_gradient: [
    "More of {1} would make {0} likelier: gradient × input is {2}.",
    "{1} 稍增，{0} 就更可能：梯度 × 输入为 {2}。",
  ],
  say_by_gradient_less: [
    "More of {1} would make {0} less likely: gradient × input is {2}.",
    "{1} 稍增，{0} 就更不可能：梯度 × 输入为 {2}。",
  ],
  say_by_integrated: [
    "In place of an unknown token, {1} changes the log-probability of {0} by {2} nats.",
    "以 {1} 代替未知词元，{0} 的对数概率变化 {2} 奈特。",
  ],
  say_by_occlusion: [
    "With {1} hidden, the log-probability of {0} changes by {2} nats.",
    "遮住 {1} 后，{0} 的对数概率变化 {2} 奈特。",
  ],
  say_by_ablation: [
    "Without head {1} of layer {0}, the answer is {3} times as likely: its log-probability changes by {2} nats.",
    "去掉第 {0} 层第 {1} 头后，输出的概率是原来的 {3} 倍：对数概率变化 {2} 奈特。",
  ],
  say_by_lens: [
    "Were block {0} the last one, the model would give {1} a probability of {2}.",
    "若第 {0} 块就是最后一块，模型给 {1} 的概率为 {2}。",
  ],
  by_edited: [
    "Attribution is of the model as it was trained, and this one is edited: take the edits back to see it.",
    "归因针对训练得到的模型，而当前模型已被编辑：请先撤回编辑。",
  ],
  side_query: ["query", "查询"],
  side_key: ["key", "键"],
  side_output: ["output", "输出"],
  side_input: ["input", "输入"],
  side_layer: ["layer", "层"],
  side_head: ["head", "头"],
  side_block: ["block", "块"],
  quantity_norms: ["{0}", "范数的份额"],
  quantity_rollout: ["{0}", "注意力展开的份额"],
  quantity_alti: ["{0}", "ALTI 的份额"],
  quantity_flow: ["{0}", "流量的份额"],
  quantity_gradient: ["{0}", "梯度 × 输入"],
  quantity_integrated: ["{0}", "积分梯度（奈特）"],
  quantity_occlusion: ["{0}", "损失的对数概率（奈特）"],
  quantity_ablation: ["{0}", "对数概率的变化（奈特）"],
  quantity_lens: ["{0}", "概率"],
  by_of: ["of {0}", "：{0}"],
  "from encoder": ["from the encoder's input", "（来自编码器输入）"],
  "from decoder": ["from what is written before", "（来自已写出的内容）"],
  "of the source": ["of the source", "（源端）"],
  "of what is written": ["of what is written", "（已写出的内容）"],
  by_together: ["All heads together", "所有头合计"],
  by_head: ["This head", "此头"],
};
