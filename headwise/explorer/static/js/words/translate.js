// @ts-check
/** Words of the page Translate: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  no_writer: [
    "{0} writes no text word by word; {1} shows it. Runs that write:",
    "{0} 不逐词写出文字，请看“{1}”页。可写文字的模型：",
  ],
  write_lead: [
    "A text as it is written, step by step: where each word looks, what else was likely, which hypotheses are kept.",
    "逐步显示文字如何写出：每个词看向哪里、还有哪些候选、保留了哪些假设。",
  ],
  back: ["Step back", "后退一步"],
  forward: ["Step forward", "前进一步"],
  stopped: ["stopped", "已停止"],
  beams: ["Beams", "束宽"],
  recipe: ["recipe", "配方"],
  ofLayers: ["mean of all layers", "各层平均"],
  ofHeads: ["mean of the heads", "各头平均"],
  written: ["writes", "写出"],
  alignment: ["Alignment", "对齐"],
  say_step: ["To write {0}, {3} takes {1} of its values from {2}.", "写出 {0} 时，{3} {1} 的值取自 {2}。"],
  all_heads: ["the mean of all heads", "所有头的平均"],
  tree: ["Beam tree", "束搜索树"],
  likely: ["Likely tokens", "候选词元"],
  forceToken: ["force this token", "强制此词元"],
  leaf: [
    "{0}: probability {1}, score {2} (log-probability, scaled by length)",
    "{0}：概率 {1}，得分 {2}（按长度折算的对数概率）",
  ],
  the_best: ["the best hypothesis", "最佳假设"],
  looked: ["looked at", "受关注"],
  forced: ["forced", "已强制"],
  forceAny: ["Any token in its place:", "改用任意词元："],
  forceIt: ["Force", "强制"],
  suggestions: ["tokens that begin so", "以此开头的词元"],
  noToken: ["is no token of this model's vocabulary.", "不是此模型词表中的词元。"],
  beginSo: ["begin so.", "个词元以此开头。"],
  noneBegins: ["None begins so.", "没有词元以此开头。"],
  again: ["Again", "重新生成"],
  looks: ["looks at", "关注"],
  blind: ["This model has no attention to show.", "此模型没有可显示的注意力。"],
  broken: ["the answer broke off; is `headwise explore` still running?", "输出中断；`headwise explore` 是否仍在运行？"],
  hypotheses: [
    "The best hypothesis is on top; a click shows the one through a token. A thick line leads to a likely token.",
    "最佳假设在最上；点击词元查看经过它的假设。线越粗，词元的概率越高。",
  ],
  pick: ["A click forces another token, and the model goes on from it.", "点击可强制另一个词元，模型由此继续。"],
  writerKeys: [
    "Keys: Space plays · ← → step · Home End first, last · [ ] layer · , . head · n scale · Esc shows the best",
    "按键：空格播放 · ← → 单步 · Home End 首、末步 · [ ] 层 · , . 头 · n 刻度 · Esc 显示最佳假设",
  ],
};
