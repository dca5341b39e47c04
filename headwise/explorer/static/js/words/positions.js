/** Words of the page Positions: English, Chinese. */

export const WORDS = {
  positions_title: ["How a model is told where a token stands", "模型如何得知词元的位置"],
  of_run: ["of", "来自"],
  scheme_of_run: ["the positions of {0}", "{0} 所用的位置"],
  between: [", ", "、"],
  base: ["base", "基数"],
  spot: ["position", "位置"],
  vectors: ["The vector of each position, which is added to its embedding", "每个位置的向量，加到词嵌入上"],
  turns: ["A vector of length one in each pair of columns, turned by its position", "每对列中的单位向量，按位置旋转"],
  scores: ["What is added to the score of each query and key", "加到每对查询与键的得分上的数"],
  vectors_bar: ["number in the vector", "向量中的数"],
  turns_bar: ["number in the turned vector", "旋转后向量中的数"],
  scores_bar: ["added to the score", "加到得分上的数"],
  row_vectors: ["position", "位置"],
  row_scores: ["position of the query", "查询的位置"],
  column_vectors: ["column", "列"],
  column_turns: ["column (two of each pair)", "列（每对两列）"],
  column_scores: ["position of the key", "键的位置"],
  cell_number: ["position {0}, column {1}: {2}", "位置 {0}，第 {1} 列：{2}"],
  cell_score: ["query at {0}, key at {1}: {2}", "查询在 {0}，键在 {1}：{2}"],
  cell_angle: ["position {0}, pair {1}: angle {2} rad", "位置 {0}，第 {1} 对：角 {2} 弧度"],
  cell_period: [
    "position {0}, pair {1}: angle {2} rad, period {3} positions",
    "位置 {0}，第 {1} 对：角 {2} 弧度，周期 {3} 个位置",
  ],
  cell_wave: ["{0}; a wave with a period of {1} positions", "{0}；周期为 {1} 个位置的波"],
  alike_vectors: ["How alike two positions are, by their distance", "两位置的相似度随距离的变化"],
  alike_scores: ["What is added, by distance: key less query", "按距离（键减查询）所加的数"],
  alike_even: ["What is added, by distance", "按距离所加的数"],
  cosine: ["cosine", "余弦"],
  by_distance: ["distance in positions", "距离（位置数）"],
  mean_spread: ["line: mean of all pairs of a distance", "线为同一距离的所有位置对的平均"],
  say_less: [
    "Neighbours are alike ({0}), positions at a distance of {2} or more less ({1}).",
    "相邻位置相似（{0}），距离不小于 {2} 的位置则较不相似（{1}）。",
  ],
  say_even: [
    "Near and far positions are as alike: {0} for neighbours, {1} at a distance of {2} or more.",
    "远近位置的相似度相近：相邻为 {0}，距离不小于 {2} 为 {1}。",
  ],
  say_fall: [
    "Far keys lose: {0} for neighbours, {1} at a distance of {2}.",
    "键越远得分越低：相邻加 {0}，距离 {2} 处加 {1}。",
  ],
  say_added: ["Neighbours get {0}, keys at a distance of {2} get {1}.", "相邻的键加 {0}，距离 {2} 处的键加 {1}。"],
  say_distance: ["Only the distance counts.", "只与距离有关。"],
  say_direction: ["Distance and direction count.", "与距离和方向有关。"],
  say_more: ["More than the distance counts.", "不只与距离有关。"],
  dial: [
    "Each pair of columns is a hand that turns: position {0} and, pale, position 0",
    "每对列如一根转动的指针：位置 {0}，浅色为位置 0",
  ],
  pair_n: ["pair {0}", "第 {0} 对"],
  period_n: ["period {0}", "周期 {0}"],
  period_rows: ["{0} rows", "{0} 行"],
  period_columns: ["{0} columns", "{0} 列"],
  here_fire: ["Here L is a quarter of the positions.", "此处 L 为位置数的四分之一。"],
  here_grid: [
    "Here the positions are the patches of a grid of {0} × {0}, counted from 0.",
    "此处的位置是 {0} × {0} 网格的图块，从 0 数起。",
  ],
  in_grid: ["{0} (row {1}, column {2}; below each hand its period)", "{0}（第 {1} 行第 {2} 列；指针下方为周期）"],
  untrained: ["untrained: what is learned is drawn at random here", "未训练：可学习部分此处为随机值"],
  draws_nothing: ["These positions do nothing: there is nothing to draw.", "这种位置不做任何事：没有可画的。"],
  draws_later: [
    "Not drawn by itself: what these positions do depends on the input. To see them at work, train a model with " +
      "model.position={0} and open it on the page {1}.",
    "无法单独画出：这种位置的作用取决于输入。要看其作用，请以 model.position={0} 训练一个模型，再在“{1}”页打开。",
  ],
};

/** Of each scheme of the library: its name, what it does, and what becomes of inputs longer than those trained on. */
/** @type {Record<string, [[string, string], [string, string], [string, string]]>} */
export const SCHEMES = {
  alibi: [
    ["ALiBi", "ALiBi（线性偏置）"],
    [
      "A score falls with the distance, by a fixed slope of each head. Nothing is learned.",
      "得分随距离线性下降，每个头的斜率固定。无可学习参数。",
    ],
    [
      "Made for long inputs: trained on short ones, it keeps its quality and fades out far ends.",
      "为长输入而设：以短输入训练，输入更长时质量不减，远端逐渐淡出。",
    ],
  ],
  convolutional: [
    ["convolutional", "卷积位置"],
    [
      "A depthwise convolution along the sequence is added: neighbours tell the order.",
      "加上沿序列的逐通道卷积：由邻居得知顺序。",
    ],
    [
      "Any length: a position knows its neighbourhood and how near an end is, not its number.",
      "任意长度均可：位置知道邻域及离两端的远近，但不知道编号。",
    ],
  ],
  cope: [
    ["CoPE", "CoPE（上下文位置）"],
    [
      "A position is a count, up to the query, of the keys that the query's gates choose.",
      "位置是一个计数：由查询的门控选出哪些键计入，数到查询为止。",
    ],
    [
      "Counts beyond the last row share it, so any length is defined.",
      "超出最后一行的计数共用该行，任意长度均有定义。",
    ],
  ],
  deberta: [
    ["DeBERTa", "DeBERTa（解耦）"],
    [
      "Adds how content matches relative position, and position matches content, to the score.",
      "在得分上加上内容对相对位置、相对位置对内容两项。",
    ],
    [
      "Distances beyond the largest share a learned vector, so any length is defined.",
      "超过上限的距离共用一个学得的向量，任意长度均有定义。",
    ],
  ],
  fire: [
    ["FIRE", "FIRE（函数插值）"],
    [
      "A learned function of the distance is added to the score: from position L on of its share of the query's " +
        "position.",
      "将距离经学得的函数，加到得分上：查询位置超过 L 后，改用距离与查询位置之比。",
    ],
    [
      "Made for long inputs: shares stay in the trained range at any length.",
      "为长输入而设：无论多长，比值都在训练过的范围内。",
    ],
  ],
  flow: [
    ["flow (FLOATER)", "流（FLOATER）"],
    [
      "Vectors that follow a learned differential equation are added to the embeddings.",
      "将满足一个学得的微分方程的向量加到词嵌入上。",
    ],
    [
      "The solution goes on smoothly to any length, but untrained there.",
      "解可平滑延伸到任意长度，但延伸部分未经训练。",
    ],
  ],
  kerple: [
    ["KERPLE", "KERPLE（核函数）"],
    [
      "A score falls with the logarithm, or a power, of the distance, at learned rates.",
      "得分随距离的对数或幂下降，速率可学习。",
    ],
    [
      "Made for long inputs: far pairs fade at learned rates, slowly enough to be seen.",
      "为长输入而设：远处按学得的速率缓慢淡出，仍可被看到。",
    ],
  ],
  learned: [
    ["learned", "可学习"],
    ["A learned vector for each position is added to its embedding.", "每个位置有一个学得的向量，加到词嵌入上。"],
    [
      "A position beyond the table is an error; with interpolation the table is stretched.",
      "超出表长的位置会报错；启用插值则将表拉长。",
    ],
  ],
  none: [
    ["no positions", "无位置"],
    [
      "Nothing: attention then sees a set, and permuting the input permutes the output.",
      "什么也不做：注意力看到的是集合，打乱输入，输出随之打乱。",
    ],
    ["There is no length to learn; a longer input is a larger set.", "没有长度可学；更长的输入只是更大的集合。"],
  ],
  recurrent: [
    ["recurrent", "循环位置"],
    [
      "The states of a recurrent network that reads the positions are added to the embeddings.",
      "循环网络逐个读位置，其状态加到词嵌入上。",
    ],
    [
      "The network runs on to any length, but its late states are untrained.",
      "网络可运行到任意长度，但靠后的状态未经训练。",
    ],
  ],
  relative_2d: [
    ["relative 2D", "二维相对位置"],
    [
      "For patches row by row: a learned number for each step down and right is added to the score.",
      "用于逐行排列的图块：每个纵横位移有一个学得的数，加到得分上。",
    ],
    [
      "A patch beyond the grid is an error: a step that was not trained has no number.",
      "网格之外的图块会报错：未训练的位移没有对应的数。",
    ],
  ],
  rotary: [
    ["rotary (RoPE)", "旋转（RoPE）"],
    [
      "Pairs of columns of queries and keys turn with the position: scores depend on the distance alone.",
      "查询与键的每对列随位置旋转：得分只取决于距离。",
    ],
    [
      "Any length has its angles, but far distances are untrained; scaled frequencies bring them back.",
      "任意长度都有角度，但远距离未经训练；缩放频率可使其回到训练范围。",
    ],
  ],
  rotary_2d: [
    ["rotary 2D", "二维旋转"],
    [
      "For patches row by row: half of the pairs turns with the row, the rest with the column.",
      "用于逐行排列的图块：一半的列对随行旋转，另一半随列旋转。",
    ],
    [
      "Any height has its angles, but a model sees steps that it was not trained on.",
      "任意高度都有角度，但模型会遇到未训练过的位移。",
    ],
  ],
  rotary_sections: [
    ["rotary sections (M-RoPE)", "分段旋转（M-RoPE）"],
    [
      "Rotary, whose pairs are shared out among time, row and column of a token. In a text, as here, the three are " +
        "the same number, so it turns as RoPE does; only a picture or film tells them apart.",
      "旋转位置，列对分给词元的时间、行与列。文本中（如此处）三者是同一个数，因此与 RoPE 相同；只有图像或视频才有区别。",
    ],
    ["Any length has its angles, but far distances are untrained.", "任意长度都有角度，但远距离未经训练。"],
  ],
  sandwich: [
    ["Sandwich", "Sandwich（正弦内积）"],
    [
      "A score falls with distance as the product of two sinusoidal vectors does. Nothing is learned.",
      "得分随距离下降，如同两个正弦位置向量的内积。无可学习参数。",
    ],
    ["Made for long inputs: far pairs fade slowly and in waves.", "为长输入而设：远处缓慢地、波动着淡出。"],
  ],
  shaw: [
    ["Shaw (relative)", "Shaw（相对位置）"],
    [
      "A learned vector for each distance, up to a largest one, is added to keys and to values.",
      "每个距离（有上限）有学得的向量，加到键与值上。",
    ],
    [
      "Distances beyond the largest share a learned vector, so any length is defined.",
      "超过上限的距离共用一个学得的向量，任意长度均有定义。",
    ],
  ],
  sinusoidal: [
    ["sinusoidal", "正弦"],
    [
      "Sines and cosines of geometric frequencies are added to the embeddings. Nothing is learned.",
      "将频率成等比的正弦与余弦加到词嵌入上。无可学习参数。",
    ],
    [
      "Any length has its vectors, but a model sees angles that it was not trained on.",
      "任意长度都有向量，但模型会遇到未训练过的角度。",
    ],
  ],
  sinusoidal_2d: [
    ["sinusoidal 2D", "二维正弦"],
    [
      "For patches row by row: the sinusoids of row and column stand side by side.",
      "用于逐行排列的图块：行与列的正弦向量并排。",
    ],
    [
      "Any height has its vectors, but a model sees angles that it was not trained on.",
      "任意高度都有向量，但模型会遇到未训练过的角度。",
    ],
  ],
  t5: [
    ["T5 (buckets)", "T5（分桶）"],
    [
      "A learned number is added to the score: near distances have one each, far ones share.",
      "得分加上学得的数：近距离各有一个，远距离共用。",
    ],
    [
      "Distances beyond the largest share a number, so any length has its bias.",
      "超过上限的距离共用一个数，任意长度都有偏置。",
    ],
  ],
  transformer_xl: [
    ["Transformer-XL", "Transformer-XL"],
    [
      "Adds how content matches the distance, and what the distance is worth in itself, to the score.",
      "在得分上加上内容对距离的匹配，以及距离本身的价值。",
    ],
    [
      "Any distance has its sinusoids; the paper attends over longer memories than it trained with.",
      "任意距离都有正弦向量；论文所用记忆比训练时更长。",
    ],
  ],
  xpos: [
    ["xPos", "xPos（衰减旋转）"],
    [
      "Rotary positions whose fast pairs fade with the distance. Made for causal attention.",
      "旋转位置，转得快的列对随距离衰减。用于因果注意力。",
    ],
    ["Made for long inputs: far pairs count less, fast columns first.", "为长输入而设：越远影响越小，快的列先衰减。"],
  ],
};

/** The same as formulas, in the LaTeX of core/formula.js. @type {Record<string, string>} */
export const FORMULAS = {
  alibi: "s_{ij} - m_h |i - j|",
  convolutional: "x + \\text{conv}(x)",
  cope: "s_{ij} + q_i \\cdot e_p, \\; p = \\sum_{l=j}^{i} \\sigma(q_i \\cdot k_l)",
  deberta: "s_{ij} = \\frac{q_i \\cdot k_j + q_i \\cdot K_{d(i,j)} + k_j \\cdot Q_{d(j,i)}}{\\sqrt{3d}}",
  fire: "s_{ij} + f_h(\\frac{\\phi(|i - j|)}{\\phi(\\max(L, i))})",
  flow: "x + p(t), \\; \\frac{dp}{dt} = h(t, p(t))",
  kerple: "s_{ij} - r_1 \\log(1 + r_2 |i - j|)",
  learned: "x_i + P_i",
  recurrent: "x_t + W h_t, \\; h_t = \\text{GRU}(s_t, h_{t-1})",
  relative_2d: "s_{ij} + T_{h, r_j - r_i, c_j - c_i}",
  rotary: "\\theta_{ij} = i \\cdot b^{-2j/d}",
  rotary_2d: "\\theta_j = r \\cdot b^{-4j/d}, \\; c \\cdot b^{-4j/d}",
  rotary_sections: "\\theta_j = n_{a(j)} \\cdot b^{-2j/d}",
  sandwich: "s_{ij} + \\frac{8h}{H} (\\sum_c \\cos((i - j) \\cdot b^{-2c/d}) - \\frac{d}{2})",
  shaw: "s_{ij} = \\frac{q_i \\cdot (k_j + a_n)}{\\sqrt{d}}, \\; v_j + b_n, \\; n = j - i",
  sinusoidal: "P_{i, 2j} = \\sin(i \\cdot b^{-2j/d}), \\; P_{i, 2j+1} = \\cos(i \\cdot b^{-2j/d})",
  sinusoidal_2d: "x + (P_r, P_c)",
  t5: "s_{ij} + T_{h, b(j - i)}",
  transformer_xl: "s_{ij} = \\frac{(q_i + u) \\cdot k_j + (q_i + v) \\cdot W R_{i-j}}{\\sqrt{d}}",
  xpos: "s_{ij} = \\sum_c z_c^{(i-j)/B} \\cdot q_{i,c} \\cdot k_{j,c}",
};
