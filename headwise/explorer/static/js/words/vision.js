// @ts-check
/** Words of the page Vision: English, Chinese. */

export const WORDS = {
  no_images: [
    "{0} reads no pictures; {1} shows it. Runs that read pictures:",
    "{0} 不读取图片，请看“{1}”页。可读取图片的模型：",
  ],
  vision_shows: [
    "A model that reads a picture cuts it into patches. This page shows which patches each head looks at.",
    "读取图片的模型把图片切成图块。本页显示每个头看向哪些图块。",
  ],
  no_class_names: [
    "This model has no names for its classes: LABEL_1 is class 1.",
    "此模型没有给类别命名：LABEL_1 即类别 1。",
  ],
  original: ["the picture", "原图"],
  mean_of_queries: ["mean of all queries", "所有查询的平均"],
  mean_of_heads: ["mean of heads", "各头平均"],
  class_token: ["class token", "类别标记"],
  the_class: ["the class token", "类别标记"],
  patch_at: ["row {0}, column {1}", "第 {0} 行第 {1} 列"],
  by_weight: ["Patches by weight (row, column)", "按权重排列的图块（行, 列）"],
  one_head: ["this head", "此头"],
  mean_head: ["the mean of the heads", "各头的平均"],
  say_patch: ["From {0} (framed), {3} takes {1} of its values from {2}.", "从{0}（框内）出发，{3} {1} 的值取自{2}。"],
  say_class: ["From {0}, {3} takes {1} of its values from {2}.", "从{0}出发，{3} {1} 的值取自{2}。"],
  say_word: ["To write {0}, {3} takes {1} of its values from {2}.", "写出 {0} 时，{3} {1} 的值取自{2}。"],
  say_mean: [
    "On average over all queries, {3} takes {1} of its values from {2}.",
    "对所有查询取平均，{3} {1} 的值取自{2}。",
  ],
  click_patch: [
    "Click a patch, or move with the arrows, to see where it looks; point at one for its number.",
    "点击图块或用方向键移动，查看它看向哪里；指向图块可读出数值。",
  ],
  click_key: ["Click a patch, or move with the arrows, to read its weight.", "点击图块或用方向键移动，读出它的权重。"],
  not_the_thing: ["Where a head looks need not be the thing that the word names.", "头所看之处不一定是词所指的东西。"],
  rollout_even: ["Evenly, each of the {0} keys would get {1}.", "均匀时，{0} 个键各得 {1}。"],
  greyed: ["The picture is grey so that colour shows weights alone.", "图片显示为灰色，使颜色只表示权重。"],
  on_image: ["on the image", "落在图像上"],
  overlay: ["Overlay", "叠加"],
  how_shown: ["How it is shown", "显示方式"],
  labels: ["Labels of the pixels", "像素标签"],
  labels_said: ["predicted", "预测"],
  labels_true: ["true", "真实"],
  labels_right: ["pixels that are right", "预测正确的像素"],
  labels_unknown: ["This picture has no mask to compare with.", "这幅图没有可对照的掩码。"],
  linear_bar: ["attention weight, linear scale", "注意力权重，线性刻度"],
  hold: ["Hold to hide", "按住隐藏"],
  opacity: ["Opacity", "不透明度"],
};
