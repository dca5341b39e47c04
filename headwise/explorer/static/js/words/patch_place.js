/** Words of the picture beside a map of its patches: English, Chinese. */

export const WORDS = {
  this_patch: [
    "{0} (framed): row {1}, column {2} of the picture's {3} × {4} patches",
    "{0}（框内）：第 {1} 行第 {2} 列，图片共 {3} × {4} 个图块",
  ],
  no_patch: ["{0}: the class token, no place in the picture", "{0}：类别标记，不是图片中的位置"],
  extra_token: ["“class” is an extra token, from which the answer comes.", "class 是额外的类别标记，输出由它而来。"],
  press_patch: ["Click a patch for its weight.", "点击图块，读出它的权重。"],
  see_on_picture: ["See all weights on the picture →", "在图片上看全部权重 →"],
};
