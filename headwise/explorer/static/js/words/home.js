// @ts-check
/** Words of the page Home: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  welcome_text: ["See which words a model looks at", "看一个模型在看哪些词"],
  welcome_image: ["See which part of a picture a model looks at", "看一个模型在看图像的哪一处"],
  welcome_sound: ["See which moment of a recording a model looks at", "看一个模型在听录音的哪一刻"],
  welcome_series: ["See which steps of a series a model looks at", "看一个模型在看序列的哪些步"],
  welcome_node: ["See which neighbours a model looks at", "看一个模型在看哪些邻居"],
  welcome_molecule: ["See which atoms a model looks at", "看一个模型在看哪些原子"],
  lead: [
    "Pick an input, or type your own. Every number behind a picture can be opened and checked by hand.",
    "选一个输入，或自己键入。图背后的每个数都可以打开，亲手验算。",
  ],
  lead_pick: [
    "Pick an input: its page shows where the model looks, and every number there can be checked by hand.",
    "选一个输入：其页面显示模型在看哪里，每个数都可以亲手验算。",
  ],
  read_text: [
    "Each picture is a map of one head: a row for each word that looks, a column for each word that it looks at. The " +
      "more a cell stands out, the larger its weight.",
    "每幅图是一个头的热图：每行是一个发出注意的词，每列是一个被看的词；格子越醒目，权重越大。",
  ],
  read_image: [
    "On the grey picture, blue shows the weights of the sentence below it: the bluer, the larger; the orange frame " +
      "marks the largest. A model may look at another thing than the one that a word names, and yet be right.",
    "灰度图上的蓝色为下方句中的权重：越蓝越大，橙框处最大。模型所看的不一定是词所指的东西，输出仍可能正确。",
  ],
  read_sound: [
    "Each picture is a recording: time runs from left to right, pitch upwards, and louder is lighter. The bars below " +
      "are the weights of its moments; the orange one is the largest.",
    "每幅图是一段录音：从左到右为时间，从下到上为音高，越亮越响。下方的条为各时刻的权重，橙色者最大。",
  ],
  read_series: [
    "Solid lines are what was measured, dashed ones the forecast, dots what really came. Bars are the weights that " +
      "one head gives to the steps, seen from the step at the orange line; the last line says how much the highest is.",
    "实线为已测的值，虚线为预测，圆点为真实值。条为某个头从橙色竖线处的一步出发、给各步的权重，最高者的值见下方句中。",
  ],
  read_node: [
    "The large dot is the node that looks, the others are its neighbours; a colour is a class. The wider a line, the " +
      "more the node takes from that neighbour; the largest one is named.",
    "大圆点为发出注意的节点，其余为其邻居；颜色表示类别。连线越宽，从该邻居取得越多；最大者标有名称。",
  ],
  read_molecule: [
    "Lines are bonds; a dot without a letter is a carbon atom. The half of a bond at an atom is as wide as what this " +
      "atom takes from the other one; the two atoms of the largest weight are named.",
    "线为化学键，无字母的点为碳原子。键靠近某原子的一半越宽，该原子从另一原子取得越多；权重最大的两个原子标有名称。",
  ],
  own_input: [
    "Click a drawn picture to see where the model looks on it, or send one of yours on the page {0}.",
    "点击一幅画好的图，看模型在看哪里；也可在“{0}”页选一张自己的图片。",
  ],
  see_image: ["which word or patch looks at which, in every head", "每个头里，哪个词或图像块看哪个"],
  attention_heads: ["attention heads", "注意力头"],
  models: ["Models served here", "这里提供的模型"],
  pages: ["Pages", "页面"],
  see_attend: ["which word looks at which, in every head", "每个头里，哪个词看哪个词"],
  see_series: ["which step looks at which, in every head", "每个头里，哪一步看哪一步"],
  see_node: ["which node looks at which, in every head", "每个头里，哪个节点看哪个节点"],
  see_molecule: ["which atom looks at which, in every head", "每个头里，哪个原子看哪个原子"],
  see_sound: ["which moment an answer looks at, in every head", "每个头里，输出看哪一刻"],
  see_trace: ["how one weight is computed, number by number", "一个权重怎样一步步算出来"],
  see_translate: ["the answer growing word by word, with its beams", "输出逐词生成，连同束搜索"],
  see_vision: ["which part of a picture a patch looks at", "图像块看图像的哪一处"],
  see_graph: ["which neighbour a node listens to", "节点听哪个邻居"],
  see_positions: ["how order is written into vectors and scores", "位置信息怎样写入向量与得分"],
  reports: ["Reports", "报告"],
  see_compare: ["two heads, models or mechanisms on one input", "同一输入上的两个头、模型或机制"],
  see_film: ["the alignment appearing during training", "训练中对齐怎样出现"],
  needs_in: ["({0}: {1})", "（{0}：{1}）"],
  last_inputs: ["Last inputs", "最近的输入"],
  forget: ["Forget them", "清除记录"],
  none_yet: [
    "None yet. Inputs are kept in this browser only; the server forgets them.",
    "暂无。输入只保存在此浏览器中，服务器不保留。",
  ],
  example_n: ["example {0}", "示例 {0}"],
  it_even: [
    "The heads are near even here (at least {0} of the entropy of equal weights), so no word stands out. A " +
      "trained model shows here which word “it” looks at.",
    "此处各头接近均匀（熵至少为均匀权重的 {0}），没有哪个词突出。训练好的模型在此显示 “it” 更看哪个词。",
  ],
  no_attention_model: [
    "This model has no attention, so its pages are empty. A recipe with model.kind=vit, attention or transformer has.",
    "此模型没有注意力，因此页面为空。使用 model.kind=vit、attention 或 transformer 的配置则有。",
  ],
  parameters: ["parameters", "参数"],
  data: ["data", "数据"],
  validated: ["Metrics are of the validation part, at this step.", "指标为该步在验证集上的结果。"],
  keys_values: ["keys, values", "键、值"],
  blocks_n: ["{0}, {1} blocks", "{0}，{1} 块"],
  heads_n: ["{0} heads", "{0} 个头"],
  causal_self: ["self-attention, causal", "自注意力，因果"],
  feed_forward: ["feed-forward {0}", "前馈 {0}"],
  recurrent: ["recurrent {0}", "循环 {0}"],
  stage_pooling: ["pooling", "池化"],
  stage_mixers: ["graph layers", "图层"],
  stage_transformer: ["transformer", "Transformer"],
  token_accuracy: ["next-token accuracy", "下一词元准确率"],
  trained_for: ["trained for", "训练"],
  steps_of_training: ["{0} steps", "{0} 步"],
  model_width: ["width", "宽度"],
  where_it: ["What does “it” look at?", "“it” 在看什么？"],
  it_heads: [
    "In {0} of {1} heads more on {2} than on {3}; an even row gives them {4} and {5}.",
    "{1} 个头中有 {0} 个更看 {2} 而非 {3}；均匀的一行分别给 {4} 与 {5}。",
  ],
  it_below: [
    "On average both get less than that: “it” looks more at other tokens.",
    "平均而言两者都低于此：“it” 更多看其他词元。",
  ],
  it_most: ["The head that does so most: {0}, {1} on {2}, {3} on {4}.", "最明显的是{0}：{1} 在 {2}，{3} 在 {4}。"],
  it_causal: [
    "When it reads “it”, a causal model has not yet read what follows.",
    "因果模型读到 “it” 时，还没有读到后面的词。",
  ],
  it_limit: [
    "Exact weights, means over all layers and heads of one sentence. They show where heads look, not what the model " +
      "takes “it” to mean: mute the head and see whether anything changes.",
    "精确的权重，为一句话所有层与头的平均。它们显示各头看哪里，不说明模型把 “it” 理解为什么：屏蔽该头，再看有无变化。",
  ],
  it_swap: ["Swapping tired for wide is another test.", "把 tired 换成 wide 也是一种检验。"],
  it_unknown: [
    "This model does not know {0}: its vocabulary has no such word.",
    "此模型不认识 {0}：词表中没有这个词。",
  ],
  it_no_self: [
    "This model has no self-attention over the words, so “it” looks at none of them.",
    "此模型没有词之间的自注意力，因此 “it” 不看任何词。",
  ],
  // without a run
  welcome_none: ["Attention, number by number", "注意力，一个数一个数地看"],
  lead_none: [
    "No run is served, so these pages show what needs none. A demo trains a small model in about a minute.",
    "没有提供训练结果，以下页面不需要模型。演示可在约一分钟内训练一个小模型。",
  ],
  book_3x4: ["Three inputs of four numbers", "三个输入，各四个数"],
  book_3x4_note: [
    "The textbook's example: scores 2, 4, 4 become the weights .063, .468, .468.",
    "教科书的例子：得分 2、4、4 变成权重 .063、.468、.468。",
  ],
  book_positions: ["Sine and cosine positions", "正弦与余弦位置"],
  book_positions_note: [
    "How alike two positions are depends on their distance alone.",
    "两个位置有多像，只取决于它们的距离。",
  ],
  book_compare: ["Which pairs meet", "哪些查询与键相遇"],
  book_compare_note: ["Masks and mechanisms side by side: who may look at whom.", "各种掩码与机制并列：谁可以看谁。"],
  make_run: ["Make a run to look into", "训练一个可供查看的模型"],
  make_translate: ["a translator, English to French", "英译法"],
  make_language: ["a language model", "语言模型"],
  make_classify: ["a text classifier", "文本分类器"],
  make_image: ["a classifier of pictures", "图像分类器"],
  then: ["then", "然后"],
};
