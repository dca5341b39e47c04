// @ts-check
/** What the server says where it refuses: a pattern of its English sentence, and the same in Chinese. */

/** @type {[RegExp, string][]} */
const REFUSALS = [
  [/^there is no example (\d+); the last is (\d+)/, "没有第 {1} 个示例，最后一个是 {2}"],
  [/^there is no example .*this run has none/, "这个模型没有示例数据"],
  [/^there is no such model/, "没有这个模型，请在上方另选一个"],
  [/^this trace is not kept any more/, "这份记录已不再保存，请重新输入"],
  [/^this film is not known any more/, "这段训练影片已改变，请刷新页面"],
  [/^attribution is of a model without edits/, "归因针对未修改的模型，请先撤销修改"],
  [/^too many requests wait/, "排队的请求过多，请稍后再试"],
  [/^the request took too long/, "计算时间过长，请缩短输入或稍后再试"],
  [/^the service ends/, "服务正在停止"],
  [/^the server does not answer/, "服务器没有回应，headwise explore 还在运行吗？"],
  [/^the file is larger than ([\d,]+) bytes/, "文件超过 {1} 字节，请缩小图片"],
  [/^this file holds what its page showed/, "此文件只含保存时显示的内容，其余请用 headwise explore 查看"],
  [/([\d,]+) characters; at most ([\d,]+) are read/, "输入有 {1} 个字符，最多读 {2} 个"],
  [/unknown node '([^']*)'/, "图中没有节点“{1}”"],
];

/** @param {string} text what the server said */
export function inChinese(text) {
  for (const [pattern, words] of REFUSALS) {
    const match = pattern.exec(text);
    if (match) return words.replace(/\{(\d)\}/g, (_, place) => match[Number(place)]);
  }
  return `服务器拒绝了请求，它的说明是英文：${text}`;
}
