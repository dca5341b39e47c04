/** Words of the dialog of keys: English, Chinese. */

export const WORDS = {
  keys: [
    "Keys: arrows move the cell · [ ] layer · , . head · g group · v view · n scale · r raw scores · w words " +
      "· s special tokens · + - 0 zoom · / input · Esc unlocks · ? all keys",
    "按键：方向键移动单元格 · [ ] 层 · , . 头 · g 层组 · v 视图 · n 刻度 · r 原始得分 · w 词 · s 特殊词元 · + - 0 缩放 · / 输入 · Esc 解锁 · ? 全部按键",
  ],
  close: ["Close", "关闭"],
  singles: ["Keys of one letter or sign are on", "启用单个字符的快捷键"],
  pointer_note: [
    "Pointer: hover shows a cell, a click locks it. Wheel or two fingers zoom a large map, a drag moves it.",
    "指针：悬停查看单元格，点击锁定。滚轮或双指缩放大图，拖动以移动。",
  ],
  key_move: ["move the locked cell; Translate: ↑ ↓ row", "移动锁定的单元格；翻译：↑ ↓ 换行"],
  key_far: ["by ten", "一次移动十格"],
  key_ends: ["to the ends of its row", "移到行首、行尾"],
  key_layer: ["layer", "层"],
  key_head: ["head, rollout behind the last", "头，最后是注意力展开"],
  key_group: ["next group of layers", "下一个层组"],
  key_view: ["next view", "下一个视图"],
  key_scores: ["weights or raw scores", "权重或原始得分"],
  key_scale: ["next scale of colours", "下一种刻度"],
  key_words: ["merge sub-words, or not", "合并子词或不合并"],
  key_special: ["special tokens: shown, hidden, hidden with rows that add up", "特殊词元：显示、隐藏、隐藏并归一"],
  key_zoom: ["larger, smaller, all of the map", "放大、缩小、整幅"],
  key_input: ["to the input", "到输入框"],
  key_unlock: ["unlock the cell, close this", "解锁单元格，关闭本窗口"],
  key_play: ["Translate, Film: play or pause", "翻译、训练过程：播放或暂停"],
  key_steps: ["Translate, Trace, Film: a step; the first, the last", "翻译、逐步计算、训练过程：单步；首、末步"],
  key_help: ["these keys", "显示按键"],
};
