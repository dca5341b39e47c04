/** Words of the exercises of the page Trace: English, Chinese. */

export const WORDS = {
  exercises_note: ["Made of the numbers above. Work them by hand, then check.", "用上面的数出题。先手算，再核对。"],
  more_exercises: ["Other numbers", "换一组数"],
  check: ["Check", "核对"],
  your_answer: ["Your answer", "你的答案"],
  right: ["Right: {0}.", "对：{0}。"],
  wrong: ["Not yet.", "还不对。"],
  no_number: ["Type a number.", "请输入一个数。"],
  see_working: ["See the working", "看算法"],
  print_sheet: ["Print a worksheet", "打印练习纸"],
  worksheet: ["Attention by hand: a worksheet", "手算注意力：练习纸"],
  solutions: ["Solutions", "答案"],
  name_date: ["Name: ____________________   Date: ____________", "姓名：____________________   日期：____________"],
  given_rows: ["The numbers of this head", "这个头的数"],
  ask_product: [
    "Multiply the query of “{0}” by the key of “{1}”, number by number, and add up. What is the missing product?",
    "把 “{0}” 的查询与 “{1}” 的键逐个相乘再相加。缺的点积是多少？",
  ],
  ask_scaled: [
    "The product of “{0}” and “{1}” is {2}; heads are {3} wide. What is the scaled score, product / √{3}?",
    "“{0}” 与 “{1}” 的点积是 {2}；头宽 {3}。缩放后的得分（点积 / √{3}）是多少？",
  ],
  ask_weight: [
    "With the largest score taken off, the exponentials of the row of “{0}” add up to {2}; that of “{1}” is {3}. " +
      "What is its weight?",
    "减去最大得分之后，“{0}” 这一行各指数之和为 {2}，“{1}” 的指数是 {3}。“{1}” 的权重是多少？",
  ],
  ask_rest: [
    "The weights of “{0}” add up to 1. All but that of “{1}” add up to {2}. What is the weight of “{1}”?",
    "“{0}” 的权重之和为 1。除 “{1}” 以外共 {2}。“{1}” 的权重是多少？",
  ],
  ask_masked: ["Which of these tokens is hidden from “{0}” by the mask?", "掩码对 “{0}” 遮住了下面哪个词元？"],
  ask_largest: [
    "These are the scores of “{0}”: {2}. Which key gets the largest weight?",
    "“{0}” 的得分为：{2}。哪个键的权重最大？",
  ],
  ask_output: [
    "Weights of “{0}”: {2}. Values of the keys in column {3}: {4}. What is the output of “{0}” in this column?",
    "“{0}” 的权重：{2}。各键的值（第 {3} 列）：{4}。“{0}” 在这一列的输出是多少？",
  ],
  hint_product: ["Multiply pair by pair; mind the signs.", "逐对相乘，注意正负号。"],
  hint_scaled: ["√{0} is {1}.", "√{0} 约为 {1}。"],
  hint_weight: ["Divide the exponential by the sum.", "用指数除以和。"],
  hint_rest: ["Take the sum of the others from 1.", "用 1 减去其他权重之和。"],
  hint_masked: ["A causal mask hides what stands behind the token.", "因果掩码遮住词元之后的内容。"],
  hint_largest: ["Softmax keeps the order of the scores.", "softmax 不改变得分的大小次序。"],
  hint_output: ["Multiply each value by its weight, then add up.", "每个值乘以它的权重，再相加。"],
  between_numbers: ["; ", "；"],
  digits_note: ["Two decimals are enough.", "保留两位小数即可。"],
};
