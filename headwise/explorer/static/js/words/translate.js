/** Words of the page Translate: English, Chinese. */

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
  recipe: ["default", "默认"],
  written: ["writes", "写出"],
  alignment: ["Alignment", "对齐"],
  tree: ["Beam tree", "束搜索树"],
  likely_number: ["#: the number of a token.", "#：词元的编号。"],
  likely: ["Likely tokens", "候选词元"],
  forceToken: ["force this token", "强制此词元"],
  the_best: ["the best hypothesis", "最佳假设"],
  looked: ["looked at", "受关注"],
  forced: ["forced", "已强制"],
  later: ["written later; a click goes there", "稍后写出；点击前往"],
  dashed: [
    "Dashed: you forced it, or it stood before what you forced. The model wrote what follows. Esc releases it.",
    "虚线框：由您强制，或位于强制词元之前；其后由模型写出。按 Esc 取消。",
  ],
  random: [
    "Drawn at random by these shares (temperature {0}): every load, and ↻, writes another text.",
    "按概率随机抽取（温度 {0}）：每次加载或按 ↻ 都会写出不同的文字。",
  ],
  forceAny: ["Any token in its place:", "改用任意词元："],
  forceIt: ["Force", "强制"],
  suggestions: ["tokens that begin so", "以此开头的词元"],
  noToken: ["is no token of this model's vocabulary.", "不是此模型词表中的词元。"],
  beginSo: ["begin so.", "个词元以此开头。"],
  noneBegins: ["None begins so.", "没有词元以此开头。"],
  again: ["Again", "重新生成"],
  looks: ["looks at", "关注"],
  broken: ["the answer broke off; is `headwise explore` still running?", "输出中断；`headwise explore` 是否仍在运行？"],
  hypotheses: [
    "The best hypothesis is on top; a click shows the one through a token. A thick line leads to a likely token.",
    "最佳假设在最上；点击词元查看经过它的假设。线越粗，词元的概率越高。",
  ],
  pick: ["A click forces another token, and the model goes on from it.", "点击可强制另一个词元，模型由此继续。"],
  writerKeys: [
    "Space plays · ← → step · ↑ ↓ row · Home End first, last · [ ] layer · , . head · n scale · Esc undoes a choice",
    "空格播放 · ← → 单步 · ↑ ↓ 换行 · Home End 首、末步 · [ ] 层 · , . 头 · n 刻度 · Esc 取消选择",
  ],
};
