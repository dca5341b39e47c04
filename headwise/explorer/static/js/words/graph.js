/** Words of the page Graph: English, Chinese. */

export const WORDS = {
  no_graph: [
    "{0} reads no graph; {1} shows it. Runs that read nodes or molecules:",
    "{0} 不读取图结构，请看“{1}”页。可读取节点或分子的模型：",
  ],
  say_node: ["{0} takes {1} of its values from {2}.", "{0} 有 {1} 的值取自 {2}。"],
  say_no_bond: ["{0} takes nothing from {1}: there is no bond between them.", "{0} 不从 {1} 取值：二者之间没有键。"],
  say_no_edge: ["{0} takes nothing from {1}: there is no edge between them.", "{0} 不从 {1} 取值：二者之间没有边。"],
  say_loop_hidden: ["What {0} takes from itself is hidden.", "{0} 取自自身的份额已隐藏。"],
  strongest_pairs: ["Strongest pairs of two atoms", "两个原子间权重最大的对"],
  fewer: ["and {0} more, none of them larger", "另有 {0} 个，都不更大"],
  undrawn: ["and {0} from neighbours that are not drawn ({1}).", "另有 {0} 取自 {1} 个未画出的邻居。"],
  more_steps: ["Above, choose more steps to draw them.", "在上方增加步数即可画出。"],
  alone: ["It attends to no other node.", "它不关注任何其他节点。"],
  none_drawn: ["None of the other nodes that it attends to is drawn.", "它所关注的其他节点都未画出。"],
  even: ["entropy of equal weights", "均匀权重的熵"],
  classes: ["Class:", "类别："],
  line_width: ["Line width, weight:", "线宽（权重）："],
  adjacency: ["Weights between them", "节点间的权重"],
  spread: ["Entropy of each node's weights", "各节点权重的熵"],
  spread_bars: [
    "Entropy, in nats: how spread the weights are, 0 for a single node. " +
      "After “of”: what equal weights would give. A short bar means that the node prefers some " +
      "of its neighbours.",
    "熵（单位：奈特）：权重的分散程度，只看一个节点时为 0；“/” 后为均匀权重时的熵。条越短，该节点越偏向某些邻居。",
  ],
  all_even: [
    "Weights differ, but no node looks at one neighbour alone: even {0}, which prefers some most, has {1} of the " +
      "entropy of equal weights. Entropy says how spread out the weights of a node are.",
    "权重有大有小，但没有节点只看一个邻居：最有选择的 {0}，其熵也有均匀权重之熵的 {1}。熵表示节点的权重有多分散。",
  ],
  hears_itself: ["Every node attends only to itself.", "每个节点都只关注自身。"],
  heads_choosing: ["Which heads choose", "哪些头有选择"],
  heads_choosing_bars: [
    "How far the entropy of a head's nodes is below that of equal weights, on average: 0 % means equal weights, a " +
      "full bar {0}.",
    "各头节点的熵平均比均匀权重的熵低多少：0 % 表示权重均匀，满条为 {0}。",
  ],
  of_even: ["{0} of {1}", "{0} / {1}"],
  rows_cut: [
    "A row adds up to less than 1 where not all neighbours of its node are drawn: that of {0} to {1}.",
    "若节点的邻居未全部画出，其所在行之和小于 1：{0} 所在行为 {1}。",
  ],
  allAlike: ["equal weights: the logarithm of the number of nodes it attends to", "均匀权重：所关注节点数的自然对数"],
  heard_of: ["nodes it attends to", "关注的节点数"],
  self_loops: ["Self-loops", "自环"],
  loops_hidden: ["hidden; entropies still count them", "已隐藏；熵仍计入"],
  loop_hidden: ["hidden self-loop", "已隐藏的自环"],
  no_bond: ["no bond", "无化学键"],
  no_edge: ["no edge", "无边"],
  centre: ["Centre here", "以此为中心"],
  hops: ["neighbours up to", "邻居范围"],
  steps_1: ["1 step", "1 步"],
  steps_n: ["{0} steps", "{0} 步"],
  nodes_drawn: ["{0} of {1} nodes are drawn.", "共 {1} 个节点，画出 {0} 个。"],
  nodes_left: [
    "{0} of {1} nodes are drawn; {2} more within reach are left out.",
    "共 {1} 个节点，画出 {0} 个；范围内还有 {2} 个未画出。",
  ],
  numbers_left: ["A weight without a number here is in the map below.", "此处未标数字的权重见下方的图。"],
  say_spread: [
    "{0} of {1} atoms spread almost evenly: none of their weights is {2} points above equal ones.",
    "{1} 个原子中有 {0} 个几乎均匀分配：权重都不比均匀高出 {2} 个百分点。",
  ],
  say_ends: ["Only the ends choose: {0}.", "只有两端有选择：{0}。"],
  say_others: ["The others: {0}.", "其余：{0}。"],
  ring_width: ["Ring width, from itself:", "环宽（取自自身）："],
  aromatic_note: ["Small letter, as in {0}: aromatic.", "小写（如 {0}）：芳香原子。"],
  nearly_even: [
    "This head spreads almost evenly over the {0} nodes: the largest weight says little here.",
    "此头对 {0} 个节点几乎均匀分配：最大的权重在此说明不了什么。",
  ],
  spread_head: ["How evenly this head spreads", "此头分配得多均匀"],
  mean_entropy: [
    "On average {0} of the entropy of equal weights. At 100 % every node gives equal weights; below that, nodes " +
      "prefer some of their neighbours.",
    "平均为均匀权重之熵的 {0}。100 % 表示每个节点的权重都均匀；低于 100 % 时，节点偏向某些邻居。",
  ],
  node_entropy: ["{0}: entropy {1} nats; equal weights would give {2}.", "{0}：熵 {1} 奈特；均匀权重为 {2} 奈特。"],
  entropy_nats: ["entropy, nats", "熵（奈特）"],
  lines_note: [
    "Lines and numbers show what the node with the orange frame attends to; click another node.",
    "连线与数字表示橙框节点关注谁；可点击其他节点。",
  ],
  halves_note: [
    "The half of a line at a node shows the weight that this node gives. Click a node to see its row alone, again to " +
      "see all.",
    "连线靠近某节点的一半表示该节点给出的权重。点击节点可只看它的一行，再次点击则看全部。",
  ],
};
