/** Words of shaded text: English, Chinese. */

export const WORDS = {
  direction: ["Direction", "方向"],
  direction_queries: ["what a token attends to", "所选词元看谁"],
  direction_keys: ["what attends to a token", "谁在看所选词元"],
  direction_whole: [
    "What attends to a token, a column, needs all weights at once: Map shows them.",
    "“谁在看所选词元”是一列，需要一次取得全部权重：见“热图”。",
  ],
  tint_row: ["What {0} attends to: these weights sum to 1.", "{0} 看谁：这些权重之和为 1。"],
  tint_row_part: [
    "What {0} attends to: tokens {1} to {2}, in sight above, hold {3} of its weights; · is below 0.1\u00a0%.",
    "{0} 看谁：上面可见的第 {1} 至 {2} 个词元占其权重的 {3}；· 表示低于 0.1\u00a0%。",
  ],
  tokens_seen: ["tokens {0} to {1} of {2}, scroll for the others", "第 {0} 至 {1} 个词元，共 {2} 个，滚动可看其余"],
  tint_column: [
    "What attends to {0}: on average {1} of a row. A column need not sum to 1.",
    "谁在看 {0}：平均占一行的 {1}。一列之和不必为 1。",
  ],
};
