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
  film: ["Film", "训练过程"],
  probe: ["probe", "探针"],
  step: ["step", "步"],
  play: ["Play", "播放"],
  pause: ["Pause", "暂停"],
  overTraining: ["over the training", "训练过程中"],
  evenness: ["evenness (entropy)", "均匀度（熵）"],
  redundancy: ["like other heads", "与其他头相似"],
  uniform: ["attends to all keys alike", "对所有键一视同仁"],
  oneKey: ["attends to one key alone", "只关注一个键"],
  sameAs: ["attends as head", "与此头相同："],
  noFilm: [
    "there is no film of its training; train with film.every=50 for a frame every 50 steps.",
    "没有训练过程的记录；训练时设置 film.every=50，每 50 步记录一帧。",
  ],
  filmNote: [
    "Keys: Space plays · ← → step · Home End · [ ] layer · , . head. ⚑ marks heads that choose no key at the end.",
    "按键：空格播放 · ← → 步 · Home End · [ ] 层 · , . 头。⚑ 标出训练结束时没有选择任何键的头。",
  ],
  keys: [
    "Keys: arrows move the cell · [ ] layer · , . head · v view · n scale · / input · Esc unlocks",
    "按键：方向键移动单元格 · [ ] 层 · , . 头 · v 视图 · n 刻度 · / 输入 · Esc 解锁",
  ],
};

/** The page that writes. */
Object.assign(STRINGS, {
  translate: ["Translate", "翻译"],
  play: ["Play", "播放"],
  pause: ["Pause", "暂停"],
  back: ["Step back", "后退一步"],
  forward: ["Step forward", "前进一步"],
  stop: ["Stop", "停止"],
  stopped: ["stopped", "已停止"],
  step: ["step", "步"],
  beams: ["Beams", "束宽"],
  recipe: ["as the recipe says", "按配方设定"],
  mean: ["mean", "平均"],
  ofLayers: ["mean of all layers", "各层平均"],
  ofHeads: ["mean of the heads", "各头平均"],
  source: ["reads", "读入"],
  written: ["writes", "写出"],
  alignment: ["Alignment", "对齐"],
  tree: ["Beam tree", "束搜索树"],
  likely: ["Likely tokens", "候选词元"],
  force: ["force this token", "强制此词元"],
  forced: ["forced", "已强制"],
  again: ["Again", "重新生成"],
  looks: ["looks at", "关注"],
  blind: ["This model has no attention to show.", "此模型没有可显示的注意力。"],
  broken: ["the answer broke off; is `headwise explore` still running?", "输出中断；`headwise explore` 是否仍在运行？"],
  hypotheses: ["The best hypothesis is on top; a click shows the one through a token.", "最佳假设在最上；点击词元查看经过它的假设。"],
  pick: ["A click forces another token, and the model goes on from it.", "点击可强制另一个词元，模型由此继续。"],
  writerKeys: [
    "Keys: Space plays · ← → step · Home End first, last · [ ] layer · , . head · n scale · Esc shows the best",
    "按键：空格播放 · ← → 单步 · Home End 首、末步 · [ ] 层 · , . 头 · n 刻度 · Esc 显示最佳假设",
  ],
});

/** The words for a name. @param {string} name */
export function t(name) {
  const found = STRINGS[name];
  return found ? found[language.value === "zh" ? 1 : 0] : name;
}
