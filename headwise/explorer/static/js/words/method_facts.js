/** Words of what a method is and does not say: English, Chinese; {0} is what the server says in English. */

export const WORDS = {
  by_formula: ["Formula", "公式"],
  by_source: ["Source", "来源"],
  by_limit: ["What it does not say", "它不能说明什么"],
  // formulas stand between dollar signs
  formula_norms: [
    "$\\lVert A_{ij} v_j W_O \\rVert$ of each head, and of the sum of all heads, as shares of a row",
    "每个头的 $\\lVert A_{ij} v_j W_O \\rVert$，以及各头之和的范数，均为占一行的份额",
  ],
  formula_rollout: [
    "the product of $(A + I) / 2$ over the layers, $A$ the mean of the heads, in shares; $A$ alone where" +
      " a layer has no" +
      " residual; cross-attention likewise",
    "各层 $(A + I) / 2$ 之积，$A$ 为各头平均，取份额；没有残差连接的层只用 $A$；交叉注意力同理",
  ],
  formula_alti: [
    "the product over the layers of $c_{ij} = \\max(0, \\lVert y_i \\rVert - \\lVert y_i - T_i(x_j)" +
      " \\rVert)$ in L1, as" +
      " shares of a row; $y_i$ is what a layer makes of $i$ before its feed-forward network, $T_i(x_j)$" +
      " what $x_j$ adds" +
      " to it by all heads, the residual and the norm",
    "各层 $c_{ij} = \\max(0, \\lVert y_i \\rVert - \\lVert y_i - T_i(x_j) \\rVert)$ 之积（L1 范数），取占一行的份额；$y_i$ " +
      "是一层在前馈网络之前由 $i$ 得出的结果，$T_i(x_j)$ 是 $x_j$ 经所有头、残差和归一化加入的部分",
  ],
  formula_flow: [
    "the maximum flow from each output to each input through edges of capacity $(A + I) / 2$, as shares of a row",
    "在容量为 $(A + I) / 2$ 的边上，从每个输出到每个输入的最大流，取占一行的份额",
  ],
  formula_gradient: [
    "$x_j \\cdot \\partial \\log p / \\partial x_j$ at the vectors of the tokens, or the pixels of a patch",
    "在词元向量（或图块像素）处的 $x_j \\cdot \\partial \\log p / \\partial x_j$",
  ],
  formula_integrated: [
    "$(x_j - u_j) \\cdot$ the mean of $\\partial \\log p / \\partial x_j$ at 50 points from $u$ to $x$," +
      " $u$ being unknown" +
      " tokens, or pixels of the mean colour; a row sums to about $\\log p(x) - \\log p(u)$",
    "$(x_j - u_j) \\cdot$ 从 $u$ 到 $x$ 的 50 个点上 $\\partial \\log p / \\partial x_j$ 的平均；$u$ " +
      "为未知词元或平均颜色的像素；一行之和约为 $\\log p(x) - \\log p(u)$",
  ],
  formula_occlusion: [
    "$\\log p(x) - \\log p(x')$, $x'$ with the unknown token in place of token $j$, or the mean colour" +
      " in place of patch" +
      " $j$",
    "$\\log p(x) - \\log p(x')$，$x'$ 中词元 $j$ 换成未知词元，或图块 $j$ 换成平均颜色",
  ],
  formula_ablation: [
    "$\\log p(x; o_h = 0) - \\log p(x)$ with the output $o_h$ of one head set to zero, over all outputs together",
    "$\\log p(x; o_h = 0) - \\log p(x)$，其中一个头的输出 $o_h$ 置零，对所有输出合计",
  ],
  formula_lens: [
    "the probability of each output, were the rest of the model to read block $l$ in place of the last one",
    "若模型的其余部分把第 $l$ 块当作最后一块来读，每个输出的概率",
  ],
  // names of papers stay as they are
  source_norms: ["{0}", "Kobayashi et al. 2020, arXiv:2004.10102，式 4"],
  source_rollout: ["{0}", "Abnar and Zuidema 2020, arXiv:2005.00928，第 3 节；交叉注意力为此处所加"],
  source_alti: ["{0}", "Ferrando et al. 2022, arXiv:2203.04212，第 3 节；编码器-解码器见 arXiv:2205.11631，第 3 节"],
  source_flow: ["{0}", "Abnar and Zuidema 2020, arXiv:2005.00928，第 3 节；交叉注意力和份额为此处所加"],
  source_integrated: ["{0}", "Sundararajan et al. 2017, arXiv:1703.01365，式 3，取每步的中点"],
  source_occlusion: ["{0}", "Zeiler and Fergus 2014, arXiv:1311.2901，第 2.2 节；Li et al. 2016, arXiv:1612.08220"],
  source_ablation: [
    "{0}",
    "Michel, Levy and Neubig 2019, arXiv:1905.10650，第 3 节；Voita et al. 2019, arXiv:1905.09418",
  ],
  limit_norms: ["{0}", "它不计残差连接保留的内容，也不计后面各层如何使用这些内容。"],
  limit_rollout: ["{0}", "它不计值向量的大小，并把残差连接当作每层的一半。"],
  limit_alti: ["{0}", "它不计前馈网络，并把与总和的接近程度当作作用大小。"],
  limit_flow: ["{0}", "它不计值向量的大小；流向多个输入的流量不必能同时通过网络。"],
  limit_gradient: ["{0}", "它只说明输入的微小变化：已饱和的输出没有梯度。"],
  limit_integrated: ["{0}", "它不说明换一个基线会得到什么。"],
  limit_occlusion: ["{0}", "它不说明多个输入共同的作用，也不说明邻近输入仍透露了被遮挡输入的多少内容。"],
  limit_ablation: ["{0}", "它不说明输入的作用；可以互相替代的头，单独看都显得不重要。"],
  limit_lens: ["{0}", "它看不到只有后面的块才能读出的内容：没有训练要求这么早就能读出。"],
};
