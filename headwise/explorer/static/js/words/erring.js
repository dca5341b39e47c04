/** Words of an answer that is not that of the data: English, Chinese. */

export const WORDS = {
  errs: ["the model errs here", "模型在此出错"],
  one_right: ["see one that it gets right →", "看一个答对的 →"],
};
