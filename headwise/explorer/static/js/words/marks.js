/** Words for marks that tokens are written with: English, Chinese. */

export const WORDS = {
  mark_space: ["␣ is a space.", "␣ 表示空格。"],
  mark_tab: ["⇥ is a tab.", "⇥ 表示制表符。"],
  mark_line: ["↵ is a line break.", "↵ 表示换行。"],
  mark_control: [
    "\\x and two hexadecimal digits: a control character, which has no picture.",
    "\\x 加两位十六进制数字：没有字形的控制字符。",
  ],
  mark_unknown: ["{0} is a word that the vocabulary lacks.", "{0} 表示词表中没有的词。"],
  mark_begin: ["{0} marks the beginning.", "{0} 标记开头。"],
  mark_end: ["{0} marks the end.", "{0} 标记结尾。"],
  mark_place: ["A number alone or in brackets is a position.", "单独的或括号内的数字为位置。"],
  mark_bytes: ["� stands for bytes that are no whole character.", "� 表示不成完整字符的字节。"],
};
