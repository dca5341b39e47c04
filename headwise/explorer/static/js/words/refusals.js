// @ts-check
/**
 * What the server says where it refuses: a pattern of its sentence, what to do about it in English and Chinese, and of
 * those that a page tells apart the kind.
 */

/** @type {[RegExp, string, string, string?][]} */
const REFUSALS = [
  [
    /^there is no example (\d+); the last is (\d+)/,
    "There is no example {1}: they are numbered 0 to {2}.",
    "没有示例 {1}：编号为 0 至 {2}。",
    "beyond",
  ],
  [
    /^there is no example .*this run has none/,
    "This model has no examples of its own.",
    "这个模型没有示例数据。",
    "none",
  ],
  [
    /reads files, and no path is taken/,
    "This model reads pictures, recordings or series, not text. Type the number of an example.",
    "这个模型读取图像、录音或序列，不读取文本。请输入示例编号。",
  ],
  [
    /^there is no such model/,
    "There is no such model. Choose one in the list above.",
    "没有这个模型。请在上方列表中选择一个。",
  ],
  [
    /^this trace is not kept any more/,
    "This result is not kept any more. Press Look to compute it again.",
    "这份结果已不再保存。请再按一次“查看”。",
  ],
  [
    /^this film is not known any more/,
    "The film of this training has changed. Reload the page.",
    "这段训练影片已改变。请刷新页面。",
  ],
  [
    /^(\S+) has no (folder, so no film|film of its training)/,
    "{1} has no film of its training. Choose another model, or train with film.every=50.",
    "{1} 没有训练影片。请选择其他模型，或以 film.every=50 训练。",
  ],
  [
    /^(\S+) keeps no checkpoint of step (\d+), but of these: (.+?)(;|$)/,
    "{1} keeps no checkpoint of step {2}. It keeps these steps: {3}.",
    "{1} 没有第 {2} 步的检查点。现有各步：{3}。",
  ],
  [
    /^attribution is of a model without edits/,
    "Attribution is of the model as it was trained. Undo the edits first.",
    "归因针对未修改的模型。请先撤销修改。",
  ],
  [
    /too many to be attributed to/,
    "This input is too long for attribution. Give a shorter one.",
    "输入过长，无法归因。请缩短输入。",
  ],
  [
    /^too many requests wait/,
    "Many requests wait for this server. Try again in a moment.",
    "排队的请求过多。请稍后再试。",
  ],
  [
    /^the request took too long/,
    "This took too long. Give a shorter input, or try again later.",
    "计算时间过长。请缩短输入，或稍后再试。",
  ],
  [
    /^the service ends/,
    "The server is stopping. Start headwise explore again.",
    "服务正在停止。请重新运行 headwise explore。",
  ],
  [
    /^the server does not answer/,
    "The server does not answer. Is headwise explore still running?",
    "服务器没有回应。headwise explore 还在运行吗？",
  ],
  [
    /^the file is larger than ([\d,]+) bytes/,
    "The file has more than {1} bytes. Send a smaller picture.",
    "文件超过 {1} 字节。请缩小图片。",
  ],
  [
    /^the file\b/,
    "This file cannot be read as a picture. Send a PNG or a JPEG, or take an example.",
    "无法将此文件读作图像。请发送 PNG 或 JPEG，或选取示例。",
  ],
  [
    /^this file holds what its page showed/,
    "This saved page holds what it showed. headwise explore shows the rest.",
    "此文件只含保存时显示的内容。其余请用 headwise explore 查看。",
  ],
  [
    /([\d,]+) characters; at most ([\d,]+) are read/,
    "This input has {1} characters; at most {2} are read. Give a shorter one.",
    "输入有 {1} 个字符，最多读 {2} 个。请缩短输入。",
  ],
  [
    /has ([\d,]+) tokens; attention is shown of at most ([\d,]+)/,
    "This text has {1} tokens; attention is shown of at most {2}. Give a shorter text, or a part of it.",
    "此文本有 {1} 个词元；最多显示 {2} 个词元的注意力。请缩短文本，或只取其中一部分。",
  ],
  [
    /^there are (\d+) tokens, and the model reads (\d+)/,
    "This text has {1} tokens (this model may cut a word into many); it reads {2} at most. Give a shorter text.",
    "此文本有 {1} 个词元（此模型可能把一个词切成许多个）；它最多读 {2} 个。请缩短文本。",
  ],
  [
    /^the prompt .* has (\d+) tokens; only its last (\d+) are read/s,
    "This text has {1} tokens. The model reads only the last {2}: what comes before them is not shown.",
    "此文本有 {1} 个词元。模型只读最后 {2} 个：在此之前的不显示。",
  ],
  [
    /too many to be shown at once; look at a node/,
    "This graph has too many pairs to be traced at once.",
    "图中的节点对太多，无法一次显示。",
    "crowded",
  ],
  [
    /has ([\d,]+) tokens; only the first ([\d,]+) are read/s,
    "This text has {1} tokens. The model reads only the first {2}: what comes after them is not shown.",
    "此文本有 {1} 个词元。模型只读前 {2} 个：其后的不显示。",
  ],
  [
    /more than ([\d,]+) tokens; only their beginnings are read/,
    "This text has more than {1} tokens. The model reads its beginning only.",
    "此文本超过 {1} 个词元。模型只读开头部分。",
  ],
  [/are tagged in parts/, "This sentence is too long for the model: it is tagged in parts.", "句子过长，分段标注。"],
  [
    /^the steps have [\d,]+ bytes/,
    "This input is too long to show every step of a head. Give a shorter one.",
    "输入过长，无法显示一个头的每一步。请缩短输入。",
  ],
  [
    /no attention to show/,
    "This model has no attention to show. Choose another run, or train one whose layers attend (of pictures, " +
      "model.kind=vit or attention_cnn).",
    "此模型没有注意力可显示。请选择其他模型，或训练一个带注意力层的模型（图像：model.kind=vit 或 attention_cnn）。",
  ],
  [
    /^unknown node '([^']*)'; did you mean '([^']*)'/,
    "There is no node “{1}” in this graph. Did you mean “{2}”?",
    "图中没有节点“{1}”。是否指“{2}”？",
  ],
  [
    /^unknown node '([^']*)'; known: ([^,]*), ([^,]*), ([^,]*)/,
    "There is no node “{1}” in this graph. Type the name of a node, such as {2}, {3} or {4}.",
    "图中没有节点“{1}”。请输入节点名称，例如 {2}、{3} 或 {4}。",
  ],
  [
    /^'(.*)': position (\d+): (.+)/,
    "“{1}” is no molecule in SMILES: character {2}, {3}. Type one such as CCO.",
    "“{1}”不是合法的 SMILES：第 {2} 个字符处有误。请输入例如 CCO。",
  ],
];

/**
 * A sentence of the server in the language of the page; undefined where it is not known here.
 * @param {string} text @param {boolean} chinese @returns {[string, string?] | undefined} with its kind
 */
function known(text, chinese) {
  for (const [pattern, english, translated, kind] of REFUSALS) {
    const match = pattern.exec(text);
    const words = chinese ? translated : english;
    if (match) return [words.replace(/\{(\d)\}/g, (_, place) => match[Number(place)]), kind];
  }
  return undefined;
}

/** Warnings, as far as they are known here in the language of the page. @param {string[]} texts */
export const noted = (texts) =>
  texts.map((text) => known(text, document.documentElement.lang.startsWith("zh"))?.[0] ?? text).join(" · ");

/**
 * A refusal in the language of the page; what is not known here stays as the server says it.
 * @param {string} text what the server said @param {boolean} chinese @returns {[string, string?]} with its kind
 */
export function worded(text, chinese) {
  return known(text, chinese) || [chinese ? `服务器拒绝了请求，它的说明是英文：${text}` : `This failed: ${text}`];
}
