// @ts-check
/** Words of the page Trace: English, Chinese. */

/** @type {Record<string, [string, string]>} */
export const WORDS = {
  temperature: ["Temperature", "温度"],
  mask_causal: ["causal mask", "因果掩码"],
  mask_padding: ["padding mask", "填充掩码"],
  hides: ["pairs hidden:", "隐藏的配对："],
  hides_none: ["hides nothing here", "此处不隐藏任何配对"],
  as_it_was: ["Back to what the model did", "恢复为模型的计算"],
  supposed_note: [
    "This is no longer what the model did: these steps are recomputed with what is set above.",
    "这已不是模型的实际计算：以下步骤按上面的设置重新计算。",
  ],
};
