/** Names of metrics, by the names that runs measure them by: English, Chinese. */

export const WORDS = {
  metric_accuracy: ["accuracy", "准确率"],
  metric_bleu: ["BLEU", "BLEU"],
  metric_chrf: ["chrF", "chrF"],
  metric_loss: ["loss", "损失"],
  metric_perplexity: ["perplexity", "困惑度"],
  metric_bits_per_char: ["bits per character", "每字符比特数"],
  metric_macro_f1: ["macro F1", "宏平均 F1"],
  metric_span_f1: ["span F1", "片段 F1"],
  metric_mae: ["mean absolute error", "平均绝对误差"],
  metric_mse: ["mean squared error", "均方误差"],
  metric_rmse: ["root mean squared error", "均方根误差"],
  metric_r2: ["R²", "R²"],
  metric_wer: ["word error rate, %", "词错误率，%"],
  metric_cer: ["character error rate, %", "字符错误率，%"],
  metric_auc: ["AUC", "AUC"],
  metric_mean_iou: ["mean IoU", "平均交并比"],
  metric_rouge1: ["ROUGE-1", "ROUGE-1"],
  metric_rouge2: ["ROUGE-2", "ROUGE-2"],
  metric_exact: ["exact match", "完全匹配"],
};
