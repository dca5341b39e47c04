// @ts-check
/** Words of the page Positions: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  positions_title: ["How a model is told where a token stands", "模型如何得知词元的位置"],
  of_run: ["of", "来自"],
  base: ["base", "基数"],
  spot: ["position", "位置"],
  vectors: [
    "A vector for each position, added to its embedding: rows are positions",
    "每个位置的向量，加到词嵌入上：行为位置",
  ],
  turns: [
    "A vector of length one in each pair of columns, turned by each position: rows are positions",
    "每对列中的单位向量按位置旋转：行为位置",
  ],
  alike_vectors: ["How alike two positions are, by their distance (cosine)", "两位置的相似度随距离的变化（余弦）"],
  alike_scores: ["What is added, by distance: key less query", "按距离（键减查询）所加的数"],
  by_distance: ["distance", "距离"],
  mean_spread: [
    "line: mean of all pairs; they differ, since more than the distance counts",
    "线为所有位置对的平均；距离之外的因素也有影响",
  ],
  dial: ["Each pair of columns is a hand: position and, pale, position 0", "每对列如一根指针：当前位置，浅色为位置 0"],
  untrained: ["untrained: what is learned is drawn at random here", "未训练：可学习部分此处为随机值"],
};
