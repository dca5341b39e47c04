/** Words of where the tokens of an output look, and of the tree of its beams: English, Chinese. */

export const WORDS = {
  say_step: ["To write {0}, {3} takes {1} of its values from {2}.", "写出 {0} 时，{3} {1} 的值取自 {2}。"],
  tinted: ["Tints above: the weights of the chosen row.", "上方底色：所选行的权重。"],
  all_heads: ["the mean of all heads", "所有头的平均"],
  leaf: [
    "{0}: probability {1}, score {2} (log-probability, scaled by length)",
    "{0}：概率 {1}，得分 {2}（按长度折算的对数概率）",
  ],
  blind: ["This model has no attention to show.", "此模型没有可显示的注意力。"],
  ofLayers: ["mean of all layers", "各层平均"],
  ofHeads: ["mean of the heads", "各头平均"],
  evenly_shared: ["(Shared evenly: {0})", "（平均分配时：{0}）"],
};
