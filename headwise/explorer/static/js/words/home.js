// @ts-check
/** Words of the page Home: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  welcome: ["See what a trained model attends to", "查看训练好的模型把注意力放在哪里"],
  models: ["Models served here", "这里提供的模型"],
};
