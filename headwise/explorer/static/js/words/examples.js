/** Words of the list of examples: English, Chinese. */

export const WORDS = {
  example_after: ["next example", "下一个示例"],
  example_before: ["example before", "上一个示例"],
  recording_n: ["recording {0}", "录音 {0}"],
  recording_of: ["recording {0} (said: {1})", "录音 {0}（读的是 {1}）"],
  picture_n: ["picture {0}", "图像 {0}"],
  picture_of: ["picture {0} ({1})", "图像 {0}（{1}）"],
  own_picture: ["Your picture (PNG, JPEG) …", "自选图片（PNG、JPEG）…"],
  sent: ["the given file", "所给的文件"],
  samples: ["Or try a drawn one:", "或试试画好的图："],
  sample_shapes: ["two shapes", "两个形状"],
  sample_house: ["a house under the sun", "阳光下的房子"],
  sample_seven: ["a white 7 on black", "黑底白色的 7"],
  too_large: ["The file is larger than 8 MB; make the picture smaller.", "文件超过 8 MB，请缩小图片。"],
  unread: ["The file cannot be read.", "无法读取该文件。"],
  // of what is answered, too
  value_in_data: ["in the data:", "数据中为："],
  class_n: ["class {0}", "类别 {0}"],
  share_of: ["{0}, probability {1}", "{0}，概率 {1}"],
  at_step: ["as it was at step {0}", "第 {0} 步时的模型"],
  // columns of public data by their names; others stand as their data has them
  "quantity_measured log solubility in mols per litre": [
    "measured log solubility in mols per litre",
    "实测溶解度（mol/L）的对数",
  ],
};
