/** Words of the page Compare: English, Chinese. */

export const WORDS = {
  comparison: ["Compare A with B", "比较 A 与 B"],
  compare_lead: [
    "Two heads, runs, mechanisms or inputs beside each other. Choose how B differs from A.",
    "并排比较两个头、两个模型、两种机制或两个输入。请选择 B 与 A 有何不同。",
  ],
  choose_sides: ["Choose A and B", "选择 A 与 B"],
  two_trainings: ["Two models", "两个模型"],
  what_differs: ["What differs", "有何不同"],
  mean_of_all_heads: ["mean of heads", "各头平均"],
  same_answer: ["Both answer “{0}”", "两者的输出都是“{0}”"],
  like_answer: [
    "Both answer “{0}”, but not with the same blanks or signs without a picture.",
    "两者的输出都是“{0}”，只是空白或不可显示的字符不同。",
  ],
  two_answers: ["A answers “{0}”, B answers “{1}”", "A 的输出是“{0}”，B 的输出是“{1}”"],
  one_answer: ["{0} answers “{1}”, {2} gives no answer.", "{0} 的输出是“{1}”，{2} 没有输出。"],
  sizes: ["A {0}, B {1}.", "A 为 {0}，B 为 {1}。"],
  same_maps: ["Both maps are the same.", "两幅热图相同。"],
  differ_most: [
    "They differ most at {0}: A takes {1} and B {2} of its values from {3}.",
    "差别最大处是 {0}：从 {3} 取的值，A 占 {1}，B 占 {2}。",
  ],
  words_differ_most: [
    "Apart from marks and special tokens, they differ most at {0}: A takes {1} and B {2} of its values from {3}.",
    "不计标点与特殊词元，差别最大处是 {0}：从 {3} 取的值，A 占 {1}，B 占 {2}。",
  ],
  all_differ_most: [
    "With marks and special tokens, the largest difference is “{0}” → “{1}”: A {2}, B {3}.",
    "计入标点与特殊词元，差别最大处是“{0}”→“{1}”：A {2}，B {3}。",
  ],
  same_peaks: ["In {0} of {1} rows both look most at the same key.", "{1} 行中有 {0} 行，两者最看重的键相同。"],
  keys_each: [
    "On average, a row looks at {0} of {2} keys in A and at {1} of {3} in B, as if over so many keys, evenly.",
    "平均每行，A 看 {2} 个键中的 {0} 个，B 看 {3} 个中的 {1} 个：相当于在这么多键上平均分配。",
  ],
  causal_keys: ["(a row of {0} sees only the keys so far)", "（{0} 的每行只能看到此前的键）"],
  exact_zeros: ["A gives exactly 0 to {0} of the pairs, B to {1}.", "A 给 {0} 的配对恰好为 0，B 给 {1}。"],
  zeros_of_one: ["No weight of {0} is exactly 0; {1} of {2}'s are.", "{0} 没有恰好为 0 的权重；{2} 有 {1}。"],
  two_runs: [
    "Heads of two trainings do not correspond: head 1 of A need not be head 1 of B. Begin with “mean” on both sides.",
    "两次训练的头互不对应：A 的第 1 头未必是 B 的第 1 头。可先在两侧选“平均”。",
  ],
  one_seed: [
    "Metrics are of each run's validation part. One seed each: train both with more before you believe a difference.",
    "指标为各自验证集上的结果。各只有一个随机种子：相信差别之前，请用更多种子训练。",
  ],
  other_measures: [
    "The tasks or the data differ, so these numbers cannot be compared: each says how well a run does its own task.",
    "任务或数据不同，这些数值不可相互比较：各自只说明该模型完成自身任务的好坏。",
  ],
  largest_keys: ["The {0} largest of {1} keys.", "{1} 个键中最大的 {0} 个。"],
  side_of_bar: ["Model and input: in the bar above.", "模型与输入：见上方栏。"],
  sameinput: ["the same input", "相同输入"],
  samemodel: ["the same run", "相同模型"],
  difference: ["Difference, B − A", "差：B − A"],
  difference_short: ["Difference", "差"],
  shown_map: ["Map that is shown", "显示的热图"],
  signs: ["blue: B less, orange: B more", "蓝：B 较小，橙：B 较大"],
  meandifference: ["mean size of a difference: {0} percentage points", "差的平均大小：{0} 个百分点"],
  othertokens: ["the tokens differ: places are compared", "词元不同：按位置比较"],
  unlike: [
    "A difference needs the same number of rows and of columns, so each map has colours of its own.",
    "相减需要相同的行数和列数，因此两幅热图各用自己的色标。",
  ],
  unlike_input: [
    "Give both the same input, and B another layer, head or mechanism.",
    "请让两侧输入相同，并为 B 选另一层、头或机制。",
  ],
  unlike_run: [
    "Both have the same input: choose for B other layers, or a run that cuts it into as many tokens.",
    "两侧输入相同：请为 B 选其他层，或选切出同样多词元的模型。",
  ],
  wrote_too: [
    "The map of {0} holds its input and what {0} wrote after it.",
    "{0} 的热图包含其输入，以及 {0} 随后写出的词元。",
  ],
  no_scores: [
    "No score is recorded of both, so nothing says which of them does its task better.",
    "没有两者共有的得分记录，因此无法说明哪个完成任务更好。",
  ],
  report_comparison: ["Comparison:", "比较："],
  report_complexity: ["Costs by size:", "规模与开销："],
  report_table: ["Table of the report", "报告的表格"],
  report_made: ["Made by", "生成命令："],
  report_failed: ["{0} of {1} failed", "{1} 次中有 {0} 次失败"],
  report_attention: ["Attention of each model on one same input", "各模型对同一输入的注意力"],
  report_runs: [
    "With its runs, what each model attends to is shown here:",
    "同时加载其模型，这里会并列显示各自的注意力：",
  ],
  col_side: ["model", "模型"],
  col_behind: ["behind the best", "与最优之差"],
  col_p: ["p", "p"],
  col_seeds: ["seeds", "随机种子"],
  col_parameters: ["parameters", "参数"],
  col_step_cpu_ms: ["CPU ms a step", "每步 CPU 毫秒"],
  col_peak_mib: ["memory, MiB", "内存，MiB"],
  col_state_bytes: ["state, bytes", "状态，字节"],
  col_cpu_s: ["CPU s in all", "总 CPU 秒"],
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
