// @ts-check
/** Every word of the pages in English and Chinese; a language is a column. */

import { language } from "./state.js";

/** @type {Record<string, [string, string]>} */
const STRINGS = {
  home: ["Home", "首页"],
  attend: ["Attend", "注意力"],
  trace: ["Trace", "逐步计算"],
  model: ["Model", "模型"],
  input: ["Input", "输入"],
  look: ["Look", "查看"],
  language: ["中文", "English"],
  welcome: ["See what a trained model attends to", "查看训练好的模型把注意力放在哪里"],
  type: ["Type an input and press Enter.", "输入文本后按回车键。"],
  models: ["Models served here", "这里提供的模型"],
  heads: ["Heads", "注意力头"],
  heat: ["Heatmap", "热图"],
  links: ["Links", "连线"],
  text: ["Text", "文本"],
  table: ["Table", "表格"],
  scale: ["Scale", "刻度"],
  from: ["rows: queries, which attend", "行：查询（发出注意力）"],
  to: ["columns: keys, which are attended to", "列：键（被关注）"],
  note: [
    "Attention shows where a layer looks, not why the model answers as it does.",
    "注意力显示该层看向哪里，并不解释模型为何如此回答。",
  ],
  layer: ["layer", "层"],
  head: ["head", "头"],
  entropy: ["entropy", "熵"],
  effective: ["keys looked at", "有效键数"],
  distance: ["distance", "距离"],
  diagonal: ["own place", "对角"],
  previous: ["place before", "前一位置"],
  first: ["first key", "首个键"],
  largest: ["largest", "最大"],
  answer: ["answer", "输出"],
  loading: ["computing …", "计算中……"],
  empty: ["Give an input first: there is nothing to show yet.", "请先输入文本：还没有可显示的内容。"],
  forbidden: ["forbidden by the mask", "被掩码禁止"],
  shape: ["shape", "形状"],
  keys: [
    "Keys: arrows move the cell · [ ] layer · , . head · v view · n scale · / input · Esc unlocks",
    "按键：方向键移动单元格 · [ ] 层 · , . 头 · v 视图 · n 刻度 · / 输入 · Esc 解锁",
  ],
  theme: ["light or dark", "浅色或深色"],
  save: ["Save", "保存"],
  saved: ["saved", "已保存"],
  savedPage: ["all of this as one file that opens without a server", "全部内容存为一个文件，无需服务器即可打开"],
  savedNumbers: ["the weights, for NumPy", "权重，供 NumPy 读取"],
  savedPicture: ["this picture", "这幅图"],
};

/** The words for a name. @param {string} name */
export function t(name) {
  const found = STRINGS[name];
  return found ? found[language.value === "zh" ? 1 : 0] : name;
}
