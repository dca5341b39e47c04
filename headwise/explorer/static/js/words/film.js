/** Words of the page Film: English, Chinese. */

export const WORDS = {
  probe: ["recorded input", "记录的输入"],
  fed: ["answer, fed in each frame", "每一帧都给它的答案"],
  overTraining: ["over the training", "训练过程中"],
  evenness: ["evenness (entropy)", "均匀度（熵）"],
  on_first: ["weight on the first key", "首个键所得的权重"],
  what_entropy: ["0: one key · 1: all alike", "0：只看一个键 · 1：同等看所有键"],
  what_first: ["near 1: the head only rests there", "接近 1：该头只是停在那里"],
  what_settled: ["0.8 or more: settled", "≥ 0.8：已稳定"],
  what_redundancy: ["1: all heads have the same map", "1：所有头的图相同"],
  uniform: ["attends to all keys alike", "对所有键一视同仁"],
  oneKey: ["attends to one key alone", "只关注一个键"],
  sameAs: ["attends as head", "与此头相同："],
  settled: ["share of rows that look as at the end", "与结束时所看相同的行的比例"],
  film_settled: [
    "The alignment of {0} appears at {1} of {2}: from there on it looks where it looks at the end.",
    "{0}的对齐出现在{1}（共 {2} 步）：此后它看的地方就是结束时看的地方。",
  ],
  film_from_start: [
    "{0} looks where it looks at the end from the first frame on: no alignment appears in this film.",
    "{0} 从第一帧起就看向结束时看的地方：此片中没有对齐出现的过程。",
  ],
  film_restless: [
    "{0} still changes where it looks at the end: no alignment has settled.",
    "{0} 到结束时仍在改变所看之处：对齐尚未稳定。",
  ],
  film_none: [
    "{0} chooses no key at the end, so no alignment appears.",
    "{0} 结束时没有选择任何键，因此没有对齐出现。",
  ],
  film_first: ["The first in this layer is {0}, at {1}.", "此层最早的是{0}，在{1}。"],
  film_frame: ["{0}, {1}", "{0}，{1}"],
  film_how: [
    "From that step on, in all probes together, 4 of 5 rows or more look most at the key of the last frame.",
    "自该步起，所有探针中至少 4/5 的行，其最大权重所在的键与最后一帧相同。",
  ],
  trace_at: ["The numbers of this head at step {0} →", "此头在第 {0} 步的数值 →"],
  trace_none: [
    "No checkpoint is kept to trace. The next training keeps 20 with",
    "没有保留可逐步计算的检查点。下次训练时保留 20 个：",
  ],
  film_is: [
    "A film is a training, frame by frame: where every head looks in a few inputs, from before the first step to the " +
      "end. Play it to see when a head begins to look where it does.",
    "这里逐帧回放一次训练：每个头在几个输入中看向哪里，从第一步之前直到结束。播放即可看到某个头何时开始看向它所看之处。",
  ],
  film_drawn: [
    "An example, drawn: the map of one head before, during and after a training.",
    "示意图：训练之前、之中、之后一个头的热图。",
  ],
  film_others: ["Runs here that have a film", "此处有训练记录的模型"],
  film_lacks: ["{0} was trained without a film", "{0} 训练时没有记录"],
  film_foreign: ["{0} was not trained here, so it has no film", "{0} 不是在此训练的，因此没有训练记录"],
  film_again: [
    "To train it again with a frame every 50 steps, in the folder that holds {0}:",
    "重新训练并每 50 步记录一帧，在 {0} 所在的文件夹中执行：",
  ],
  film_small: ["To train a small model with a film:", "训练一个带记录的小模型："],
  film_then: ["Then, to see it:", "然后查看："],
  filmNote: [
    "Keys: Space plays · ← → step · Home End · [ ] layer · , . head. ⚑ marks heads that choose no key at the end.",
    "按键：空格播放 · ← → 步 · Home End · [ ] 层 · , . 头。⚑ 标出训练结束时没有选择任何键的头。",
  ],
  redundancy: ["like other heads", "与其他头相似"],
};
