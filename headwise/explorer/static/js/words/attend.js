/** Words of the page Attend: English, Chinese. */

export const WORDS = {
  say_cross: ["To write {0}, {3} takes {1} of its values from {2}.", "写出 {0} 时，{3}有 {1} 的值取自 {2}。"],
  say_self: ["At {0}, {3} takes {1} of its values from {2}.", "在 {0} 处，{3}有 {1} 的值取自 {2}。"],
  say_pooled: ["For the answer {0}, {3} takes {1} of its values from {2}.", "对于输出 {0}，{3}有 {1} 的值取自 {2}。"],
  say_rollout: ["Through all layers, {0} takes {1} from {2}.", "贯穿各层，{0} 有 {1} 取自 {2}。"],
  say_most: ["More, {0}, comes from {1}.", "更多的 {0} 取自 {1}。"],
  say_hidden: ["{0} cannot attend to {2}: the mask hides it.", "{0} 不能关注 {2}：掩码将其遮住。"],
  own_scale: ["Each picture has a scale of its own.", "每幅小图各用自己的刻度。"],
  save_and_show: ["Save, tokens shown", "保存、词元的显示"],
  continuation: ["continuation", "续写"],
  seam: ["below the line, bold: written by the model", "横线以下、粗体：模型写出的词元"],
  watch_written: ["Watch it being written →", "看它逐词写出 →"],
  see_neighbours: ["See it among its neighbours →", "看它与其邻居 →"],
  see_drawn: ["See the molecule →", "看分子图 →"],
  row_answer: ["The row for the answer {0}", "输出 {0} 的那一行"],
  see_made: ["See how this number is made →", "看这个数怎样算出来 →"],
  diagonal: ["own position", "自身位置"],
  previous: ["previous position", "前一位置"],
  next: ["next position", "后一位置"],
  separator: ["separators", "分隔符"],
  // one head of many
  find: ["Find a head", "找一个头"],
  by_weights: ["(by weights)", "（按权重）"],
  finds_previous: ["previous token", "前一个词元"],
  finds_previous_step: ["the step before", "前一步"],
  finds_next_step: ["the step after", "后一步"],
  finds_diagonal_step: ["its own step", "自己这一步"],
  finds_first_step: ["the first step", "第一步"],
  finds_next: ["next token", "后一个词元"],
  finds_diagonal: ["itself", "自己"],
  finds_first: ["first token", "第一个词元"],
  finds_separator: ["separators", "分隔符与标点"],
  finds_same: ["same token elsewhere", "别处的同一词元"],
  finds_induction: ["after the same token (induction)", "同一词元之后（归纳）"],
  // links
  links_cut: [
    "{0} of {1} links: each row is drawn until {2} % of its weight is shown.",
    "{1} 条中的 {0} 条：每行画到累计权重 {2} % 为止。",
  ],
  // text
  largest: ["largest weight", "最大权重"],
  muted: ["What each head does for the answer", "每个头对输出的作用"],
  ended: ["Stopped.", "已停止。"],
  inputs: ["Inputs, one a line", "输入，每行一个"],
  muted_head: [
    "This head is muted: its output is zero, so its weights are shown as zero. Undo below takes that back.",
    "此头已被屏蔽：其输出为零，因此权重显示为零。下方的“撤销”可恢复。",
  ],
  // a long input
  heads_coming: ["computing: {0} of {1} heads", "计算中：{1} 个头中的 {0} 个"],
  heads_ask: ["Draw their pictures", "画出缩略图"],
  long_find: [
    "An input of {0} tokens is too long: this compares all weights of all heads at once.",
    "输入有 {0} 个词元，过长：查找需要同时比较所有头的全部权重。",
  ],
  long_find_nodes: [
    "A graph of {0} nodes is too large: this compares all weights of all heads at once.",
    "图有 {0} 个节点，过大：查找需要同时比较所有头的全部权重。",
  ],
  unshown: [
    "{1} would need all {2} weights of a head at once ({0} tokens), more than one page can show. Here is one row of " +
      "them, as Links shows it; Map shows all.",
    "“{1}”需要同时取得一个头的全部 {2} 个权重（{0} 个词元），一页无法显示。这里是其中一行，与“连线”相同；“热图”显示全部。",
  ],
  unshown_nodes: [
    "{1} would need all {2} weights of a head at once ({0} nodes), more than one page can show. Here is one row of " +
      "them, as Links shows it; Map shows all.",
    "“{1}”需要同时取得一个头的全部 {2} 个权重（{0} 个节点），一页无法显示。这里是其中一行，与“连线”相同；“热图”显示全部。",
  ],
  as_map: ["{0}: as a map, the one view that has them.", "{0}：只有热图能显示，已切换到热图。"],
  stage_weights: ["Weights", "权重"],
  stage_scores: ["Raw scores", "原始得分"],
  // sub-words, special tokens, zoom, changed steps, keys
  merge: ["Merge sub-words", "合并子词"],
  merged_note: [
    "sub-words are merged: weights are summed over keys and averaged over queries",
    "子词已合并：对键求和，对查询取平均",
  ],
  special_show: ["shown", "显示"],
  special_hide: ["hidden", "隐藏"],
  special_share: ["hidden, rows add up", "隐藏并归一"],
  hidden_note: ["special tokens are hidden: of a row is left, on average,", "特殊词元已隐藏：每行平均剩余"],
  shared_note: [
    "special tokens are hidden, and the rest of each row is scaled to the sum it had",
    "特殊词元已隐藏，每行其余部分按原来的总和归一",
  ],
};
