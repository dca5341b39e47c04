// @ts-check
/** Words of the page Film: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  probe: ["probe", "探针"],
  overTraining: ["over the training", "训练过程中"],
  evenness: ["evenness (entropy)", "均匀度（熵）"],
  uniform: ["attends to all keys alike", "对所有键一视同仁"],
  oneKey: ["attends to one key alone", "只关注一个键"],
  sameAs: ["attends as head", "与此头相同："],
  trace_at: ["The numbers of this head at step {0} →", "此头在第 {0} 步的数值 →"],
  trace_none: [
    "No checkpoint is kept to trace: train with training.keep_last=20.",
    "没有保留可逐步计算的检查点：训练时设置 training.keep_last=20。",
  ],
  noFilm: [
    "there is no film of its training; train with film.every=50 for a frame every 50 steps.",
    "没有训练过程的记录；训练时设置 film.every=50，每 50 步记录一帧。",
  ],
  filmNote: [
    "Keys: Space plays · ← → step · Home End · [ ] layer · , . head. ⚑ marks heads that choose no key at the end.",
    "按键：空格播放 · ← → 步 · Home End · [ ] 层 · , . 头。⚑ 标出训练结束时没有选择任何键的头。",
  ],
};
