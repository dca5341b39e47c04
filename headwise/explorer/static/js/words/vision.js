// @ts-check
/** Words of the page Vision: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  no_images: [
    "The chosen run reads no pictures; the page Attend shows it. Runs that read pictures:",
    "所选模型不读取图片，请在“注意力”页查看。可读取图片的模型：",
  ],
  mean_of_queries: ["mean of all queries", "所有查询的平均"],
  mean_of_heads: ["mean of heads", "各头平均"],
  class_token: ["class token", "类别标记"],
  overlay: ["Overlay", "叠加"],
  labels: ["Labels of the pixels", "像素标签"],
  labels_said: ["predicted", "预测"],
  labels_true: ["true", "真实"],
  labels_right: ["pixels that are right", "预测正确的像素"],
  labels_unknown: ["This picture has no mask to compare with.", "这幅图没有可对照的掩码。"],
};
