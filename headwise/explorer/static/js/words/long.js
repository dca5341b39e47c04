/** Words of maps of long inputs: English, Chinese. */

export const WORDS = {
  blocks_max: ["Largest", "最大值"],
  blocks_mean: ["Means", "均值"],
  block_max: ["largest", "最大"],
  block_mean: ["mean", "均值"],
  block_bar: ["weight of a block", "块的权重"],
  long_max: ["Each cell is the largest of {0} × {0} weights,", "每格为 {0} × {0} 个权重中的最大值，"],
  long_mean: ["Each cell is the mean of {0} × {0} weights,", "每格为 {0} × {0} 个权重的均值，"],
  long_exact: ["Each cell is one exact weight,", "每格为一个精确权重，"],
  long_of: [
    "of {0}; zoom in (wheel, pinch or +) for single weights, click for an exact row.",
    "共 {0}；放大（滚轮、双指或 + 键）可见单个权重，点击可读精确的一行。",
  ],
  long_row: ["of {0}; click for an exact row.", "共 {0}；点击可读精确的一行。"],
};
