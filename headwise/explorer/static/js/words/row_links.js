// @ts-check
/** Words of the links of one row of a large head: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  row_nodes: [
    "The row of node {0}: all {1} nodes that it attends to. Click one of them to see its row.",
    "节点 {0} 这一行：它关注的全部 {1} 个节点。点击其中一个可看它的一行。",
  ],
  row_nodes_some: [
    "The row of node {0}: {2} of the {1} nodes that it attends to, which hold {3}. Click one of them to see its row.",
    "节点 {0} 这一行：它关注 {1} 个节点，画出其中 {2} 个，占 {3}。点击其中一个可看它的一行。",
  ],
  row_keys: [
    "The row of {0}: all {1} keys that it attends to. In brackets: positions.",
    "{0} 这一行：它关注的全部 {1} 个键。括号内为位置。",
  ],
  row_keys_some: [
    "The row of {0}: {2} of {1} keys, those with the largest weights, which hold {3}. In brackets: positions.",
    "{0} 这一行：{1} 个键中权重最大的 {2} 个，占 {3}。括号内为位置。",
  ],
  row_node: ["Another node", "其他节点"],
  row_position: ["Another row, by its position", "其他行（按位置）"],
  show_row: ["Show its row", "显示这一行"],
  no_row_node: ["{0} is no node of this graph.", "图中没有节点 {0}。"],
  no_row_position: ["{0} is no position: give one from 1 to {1}.", "{0} 不是有效位置，请输入 1 至 {1}。"],
};
