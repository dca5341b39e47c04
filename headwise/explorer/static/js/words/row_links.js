/** Words of the links of one row of a large head: English, Chinese. */

export const WORDS = {
  row_nodes: [
    "The row of node {0} in {5}: all {1} nodes that it attends to. Click one of them to see its row.",
    "节点 {0} 这一行（{5}）：它关注的全部 {1} 个节点。点击其中一个可看它的一行。",
  ],
  row_nodes_some: [
    "The row of node {0} in {5}: {2} of the {1} nodes that it attends to, which hold {3}. Click one of them to see " +
      "its row.",
    "节点 {0} 这一行（{5}）：它关注 {1} 个节点，画出其中 {2} 个，占 {3}。点击其中一个可看它的一行。",
  ],
  row_keys: [
    "The row of {0}, of {4} tokens, in {5}: all {1} keys that it attends to. In brackets: positions.",
    "{0} 这一行（{5}，共 {4} 个词元）：它关注的全部 {1} 个键。括号内为位置。",
  ],
  row_keys_some: [
    "The row of {0}, of {4} tokens, in {5}: {2} of {1} keys, those with the largest weights, which hold {3}. In " +
      "brackets: positions.",
    "{0} 这一行（{5}，共 {4} 个词元）：{1} 个键中权重最大的 {2} 个，占 {3}。括号内为位置。",
  ],
  row_text: [
    "What {0} attends to in {1}: tokens {2} to {3} of {4}, which hold {5} of its row; · is below 0.1\u00a0%. Click a " +
      "token to see its row.",
    "{0} 在{1}中看谁：第 {2} 至 {3} 个词元，共 {4} 个，占这一行的 {5}；· 表示低于 0.1\u00a0%。点击词元可看它的一行。",
  ],
  tokens_before: ["← Tokens before", "← 前面的词元"],
  tokens_after: ["Tokens after →", "后面的词元 →"],
  to_largest: ["Largest weight: {1} on {0}", "最大权重：{0}，{1}"],
  row_node: ["Another node", "其他节点"],
  row_position: ["Another row, by its position", "其他行（按位置）"],
  show_row: ["Show its row", "显示这一行"],
  no_row_node: ["{0} is no node of this graph.", "图中没有节点 {0}。"],
  no_row_position: ["{0} is no position: give one from 1 to {1}.", "{0} 不是有效位置，请输入 1 至 {1}。"],
};
