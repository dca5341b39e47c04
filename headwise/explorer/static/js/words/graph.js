// @ts-check
/** Words of the page Graph: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  no_graph: [
    "The chosen run reads no graph; the page Attend shows it. Runs that read nodes or molecules:",
    "所选模型不读取图结构，请在“注意力”页查看。可读取节点或分子的模型：",
  ],
  say_node: ["{0} takes {1} of its values from {2}.", "{0} {1} 的值取自 {2}。"],
  strongest_pairs: ["The strongest pairs", "权重最大的节点对"],
  fewer: ["and {0} with less", "另有 {0} 个更小"],
  alone: ["It attends to no other node.", "它不关注任何其他节点。"],
  even: ["entropy of equal weights", "均匀权重的熵"],
  classes: ["Class:", "类别："],
  atoms: ["Atom:", "原子："],
  line_width: ["Line width, weight:", "线宽（权重）："],
  adjacency: ["Weights between them", "节点间的权重"],
  spread: ["Entropy of each node's weights", "各节点权重的熵"],
  allAlike: ["all alike: ln of how many it hears of", "均匀分布：邻居数的自然对数"],
  heard_of: ["nodes it hears of", "邻居数"],
  self_loops: ["Self-loops", "自环"],
  centre: ["Centre here", "以此为中心"],
  of_nodes: ["nodes of", "个节点，共"],
  left_out: ["more are left out", "个节点未显示"],
  itself: ["itself", "自身"],
  lines_note: [
    "Lines and numbers show what the node with the orange frame attends to; click another node.",
    "连线与数字表示橙框节点关注谁；可点击其他节点。",
  ],
  halves_note: [
    "The half of a line at a node shows the weight that this node gives; click a node to see its row alone.",
    "连线靠近某节点的一半表示该节点给出的权重；点击节点可只看它的一行。",
  ],
};
