/** Words of the list of checkpoints: English, Chinese. */

export const WORDS = {
  checkpoint: ["training step", "训练步"],
  trained: ["end (the run's model)", "结束（最终模型）"],
};
