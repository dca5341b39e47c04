/** Words of editing a model: English, Chinese. */

export const WORDS = {
  change_most: [
    "The token that changes most is {0}: its probability goes from {1} to {2}.",
    "变化最大的词元是 {0}：概率从 {1} 变为 {2}。",
  ],
  hidetoken: ["Hide token", "隐藏词元"],
  hidemoment: ["Hide moment", "隐藏时刻"],
  hidestep: ["Hide step", "隐藏时间步"],
  hidenode: ["Hide node", "隐藏节点"],
  notrenormalized: ["the rest of the row keeps its weights", "该行其余权重不变"],
  swaplayer: ["Swap mechanism", "替换机制"],
  toomany: ["No more edits fit: take one back first.", "编辑数量已满：请先撤回一个。"],
  tokenfirst: [
    "Choose a key first: keys are what is hidden. Click a cell of the map, or a token of the keys in Links or Text.",
    "请先选择一个键：被隐藏的是键。请点击热图单元格，或在“连线”“文本”中点击键一侧的词元。",
  ],
  lockfirst: [
    "Click a cell of the map first: its row is the query, its column the key.",
    "请先点击热图中的单元格：行为查询，列为键。",
  ],
  nonew: [
    "The answer before is kept: places of it are edited, or it is told place by place.",
    "保留原输出：所编辑的是其中的位置，或逐位置说明变化。",
  ],
  weight_now: ["The attention weight {0} goes from {1} to {2}.", "注意力权重 {0} 从 {1} 变为 {2}。"],
  stays: ["The answer stays {0}", "输出不变：{0}"],
  becomes: ["The answer was {0}, now it is {1}", "输出由 {0} 变为 {1}"],
  moved: [
    "KL divergence: how far the probabilities of all tokens move at a place, 0 for not at all; here the mean of all " +
      "places. Change of log-probability: of the whole answer before, below 0 where it becomes less likely.",
    "KL 散度：某位置上所有词元的概率移动多远，0 表示不变；此处为各位置的平均。对数概率的变化：针对原来的整个输出，小于 0 表示其可能性降低。",
  ],
  likeliest: ["likeliest now", "现在最可能的"],
  renormalized: ["the rest of the row shares what is left", "该行其余权重按比例分配剩余部分"],
  swap_normalizer: ["normalizer {0}", "归一化 {0}"],
  swap_score: ["score {0}", "得分 {0}"],
  swap_mechanism: ["mechanism {0}", "机制 {0}"],
  mask_of_causal: ["causal", "因果"],
  mask_of_window: ["window ±{0}", "窗口 ±{0}"],
  narrow: ["Narrow mask", "收窄掩码"],
  undo: ["Undo", "撤销"],
  remove: ["take back", "撤回"],
  place: ["place", "位置"],
  chosen: ["chosen before", "原选择"],
  after: ["after", "之后"],
};
