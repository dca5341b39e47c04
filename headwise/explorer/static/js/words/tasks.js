/** Names of tasks: English, Chinese. */

export const WORDS = {
  task_translate: ["translation", "翻译"],
  task_summarise: ["summarisation", "摘要"],
  task_dialogue: ["dialogue", "对话"],
  "task_language-model": ["language model", "语言模型"],
  "task_masked-lm": ["masked language model", "掩码语言模型"],
  task_classify: ["text classification", "文本分类"],
  task_regress: ["text regression", "文本回归"],
  task_tag: ["tagging", "序列标注"],
  "task_word-vectors": ["word vectors", "词向量"],
  "task_image-classify": ["image classification", "图像分类"],
  "task_image-segment": ["image segmentation", "图像分割"],
  task_caption: ["image captioning", "图像描述"],
  "task_speech-classify": ["speech classification", "语音分类"],
  "task_speech-tag": ["speech tagging", "语音标注"],
  task_transcribe: ["speech recognition", "语音识别"],
  "task_node-classify": ["node classification", "节点分类"],
  "task_graph-regress": ["graph regression", "图回归"],
  task_rank: ["ranking", "推荐排序"],
  task_forecast: ["forecasting", "时间序列预测"],
};
