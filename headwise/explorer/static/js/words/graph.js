// @ts-check
/** Words of the page Graph: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  no_graph: [
    "The chosen run reads no graph; the page Attend shows it. Runs that read nodes or molecules:",
    "所选模型不读取图结构，请在“注意力”页查看。可读取节点或分子的模型：",
  ],
  neighbours: ["Whom it attends to", "关注的节点"],
  adjacency: ["Weights between them", "节点间的权重"],
  spread: ["Entropy of each node's weights", "各节点权重的熵"],
  allAlike: ["all alike: ln of how many it hears of", "均匀分布：邻居数的自然对数"],
  heard_of: ["nodes it hears of", "邻居数"],
  self_loops: ["Self-loops", "自环"],
  centre: ["Centre here", "以此为中心"],
  of_nodes: ["nodes of", "个节点，共"],
  left_out: ["more are left out", "个节点未显示"],
  itself: ["itself", "自身"],
  edges_note: [
    "The half of a line at a node is as wide as the weight that this node gives, until a node is chosen: then " +
      "whole lines show what it attends to.",
    "连线靠近某节点的一半，其宽度表示该节点给出的权重；选中节点后，整条线表示它关注谁。",
  ],
};
