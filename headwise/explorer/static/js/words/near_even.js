/** Words of a model that has hardly learned: English, Chinese. */

export const WORDS = {
  hardly_learned: [
    "Hardly learned: on average over its rows, every head spreads its weight almost evenly, as in a " +
      "model that is not trained. Single cells may stand out.",
    "几乎没有学到什么：按各行平均，每个头几乎均匀地分配权重，与未训练的模型相同；个别格子可能突出。",
  ],
  means_little: ["What it answers means little.", "其输出没有多少意义。"],
};
