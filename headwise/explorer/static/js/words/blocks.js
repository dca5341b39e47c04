/** Words of maps whose cells stand for several weights: English, Chinese. */

export const WORDS = {
  map_blocks: [
    "Each cell is the largest of {0} × {1} weights, of {2}{3}; zoom in (wheel, pinch or +) for single weights.",
    "每格为 {0} × {1} 个权重中的最大值，共 {2}{3}；放大（滚轮、双指或 + 键）可见单个权重。",
  ],
  map_exact: ["Each cell is one weight, of {2}{3}.", "每格为一个权重，共 {2}{3}。"],
  map_columns: [": columns {0} to {1}", "：第 {0} 至 {1} 列"],
};
