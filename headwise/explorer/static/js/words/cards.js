// @ts-check
/** Words of cards of inputs: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  instead: ["Or take one of these:", "或选取其中一个："],
  story: ["{0} takes {1} from {2}", "{0} 有 {1} 取自 {2}"],
  all_near_even: [
    "Near even in every head: the last rows reach at least {0} of the entropy of equal weights, as those of an " +
      "untrained model do. The answers of such a model ({1} parameters) mean nothing, so they are left out.",
    "各头都接近均匀：最后一行的熵至少为均匀权重的 {0}，未经训练的模型就是如此。这样的模型（{1} 个参数）的输出没有意义，故不列出。",
  ],
  repeats: [
    "The continuations repeat themselves: at each step the likeliest token is taken, by a model that is small or was " +
      "trained briefly. Look at how its heads read the input.",
    "续写在重复自己：每步都取最可能的词元，而模型很小或训练很短。请看各头怎样读输入。",
  ],
  goes_on: ["goes on: {0}", "续写：{0}"],
  story_place: ["{0} looks most at {2}: {1}", "{0} 主要看{2}：{1}"],
  story_moment: ["most weight at {1}: {0}", "权重最大处 {1}：{0}"],
  no_character: ["a byte that is no character", "不成字符的字节"],
  truth: ["in the data: {0}", "数据中为：{0}"],
  begin_with: ["Or begin with one of these:", "或从其中一个开始："],
};
