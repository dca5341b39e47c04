// @ts-check
/** Words of the page Compare: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  comparison: ["A beside B", "A 与 B 对比"],
  sameinput: ["the same input", "相同输入"],
  samemodel: ["the same run", "相同模型"],
  difference: ["Difference, B − A", "差：B − A"],
  meanheads: ["mean of the heads", "各头平均"],
  mean: ["mean", "平均"],
  differ_in: ["The two trainings differ in", "两次训练的差别："],
  differ_not: [
    "The two trainings differ in no setting but the seed or the data.",
    "两次训练的设置相同，只有种子或数据可能不同。",
  ],
  its_default: ["default", "默认值"],
  one_seed: [
    "Scores of validation, one seed each: `headwise compare` with more seeds says whether a difference is one. Heads " +
      "of two trainings do not correspond; begin with their mean.",
    "验证集得分，各一个种子：用更多种子运行 `headwise compare` 才能判断差别是否可靠。两次训练的头并不对应，请先看平均。",
  ],
  exact_zeros: ["Exact zeros: {0} of the cells that the mask allows.", "恰为零：占掩码允许单元格的 {0}。"],
  largest_of: ["The {0} largest of {1}.", "{1} 个中最大的 {0} 个。"],
  signs: ["blue: less in B, orange: more", "蓝：B 较小，橙：B 较大"],
  meandifference: ["mean size of a difference", "差的平均大小"],
  othertokens: ["the tokens differ: places are compared", "词元不同：按位置比较"],
  unlike: [
    "A difference needs the same number of rows and of columns: take the same input with another run, layer, " +
      "head or mechanism.",
    "相减需要相同的行数和列数：请用相同输入，换模型、层、头或机制。",
  ],
  curves: ["Measured time and memory over the length", "时间和内存随长度的变化（实测）"],
  norecords: [
    "There are no measurements to draw. These commands make them and show them:",
    "没有可绘制的测量结果。用以下命令测量并显示：",
  ],
  milliseconds: ["milliseconds of a forward pass (median)", "前向计算的毫秒数（中位数）"],
  mebibytes: ["MiB that a forward pass needs", "前向计算所需 MiB"],
  stored: ["stored results; nothing is measured on this page", "已存储的结果；本页不进行测量"],
  bend: [
    "× is how much more time the last doubling of n takes: about 2 where the cost is linear, about 4 where it " +
      "is quadratic. Short lengths bend because fixed costs come first.",
    "× 表示 n 最后一次加倍时耗时的倍数：线性约为 2，平方约为 4。长度较短时固定开销占主导，曲线因此弯曲。",
  ],
  masknote: ["Masks: a coloured cell is a pair that may meet", "掩码：有颜色的单元格是允许的配对"],
  mechanismnote: [
    "Mechanisms, untrained, on a random input: how much each value counts for each query (size, square root); " +
      "what is blank never meets.",
    "各机制（未训练，随机输入）：每个值对每个查询的权重大小（平方根）；空白处从不相遇。",
  ],
  time: ["time", "时间"],
  memory: ["memory", "内存"],
};
