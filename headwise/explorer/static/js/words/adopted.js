/** Words of the card of a model: what one of Hugging Face is, and parts without attention: English, Chinese. */

export const WORDS = {
  task_write: ["reads and writes text", "读文本、写文本"],
  task_encode: ["vectors for each token or patch", "逐词元（块）的向量"],
  adopted: ["Hugging Face model", "Hugging Face 模型"],
  is_encoder: [
    "An encoder: every token looks at all others, before it and behind it. It writes nothing on.",
    "编码器：每个词元看前后所有词元，不续写文本。",
  ],
  is_image: [
    "An encoder of pictures: a picture is cut into patches, and each patch looks at all others; so does a class " +
      "token, from which the answer comes.",
    "图像编码器：图像切成小块，每块看所有块；类别标记也看所有块，输出由它而来。",
  ],
  "is_masked-lm": [
    "An encoder: every token looks at all others, before it and behind it. Put a mask in place of a word, and it " +
      "says which word stands there.",
    "编码器：每个词元看前后所有词元。把一个词换成掩码，它会说出那里是什么词。",
  ],
  is_decoder: [
    "A decoder: each token looks at itself and at those before it, and the last one says which token comes next.",
    "解码器：每个词元只看自己与之前的词元，最后一个词元预测下一个。",
  ],
  "is_encoder-decoder": [
    "An encoder reads the text whole; a decoder writes the answer and looks back at what was read.",
    "编码器读完整个文本；解码器写出输出，并回看所读内容。",
  ],
  model_class: ["class", "类"],
  vocabulary: ["vocabulary", "词表"],
  tokens_n: ["{0} tokens", "{0} 个词元"],
  reads_most: ["reads at most", "最多读入"],
  layers_heads: ["layers × heads", "层 × 头"],
  origin: ["from", "来源"],
  convolution: ["{0} convolutions, {1} channels", "{0} 个卷积层，{1} 通道"],
};
