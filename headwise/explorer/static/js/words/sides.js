/** Words of what stands beside a map of a recording or of a series: English, Chinese. */

export const WORDS = {
  spectrogram: [
    "spectrogram (log-mel), low bands next to the map; over it the weights of the chosen row",
    "语谱图（对数梅尔），低频靠近热图；其上为所选行的权重",
  ],
  sound_key: ["line: weights of the chosen row; lighter: louder", "线：所选行的权重；越亮越响"],
  frequency: ["frequency, low to high", "频率（低到高）"],
  from_time: ["attends from: time in the recording", "看的一方：录音中的时间"],
  to_time: ["attends to: time in the recording", "被看的一方：录音中的时间"],
  to_step: ["attends to: step (0 is the last known one)", "被看的一方：步（0 为最后已知的一步）"],
  from_step: ["attends from: step", "看的一方：步"],
  step_known: ["the last known step", "最后已知的一步"],
  one_step_back: ["1 step back", "前 1 步"],
  steps_back: ["{0} steps back", "前 {0} 步"],
  one_step_ahead: ["1 step ahead", "后 1 步"],
  steps_ahead: ["{0} steps ahead", "后 {0} 步"],
  story_steps: ["{0} takes {1} from {2}", "{0}有 {1} 取自{2}"],
  story_back: ["{0} steps earlier", "它之前第 {0} 步"],
  story_one_back: ["1 step earlier", "它的前一步"],
  colon: [": ", "："],
  step_before_from: ["{0} before now", "往前第 {0} 步"],
  step_before_to: ["{0} before", "往前第 {0} 步"],
  step_ahead_from: ["step {0} ahead", "往后第 {0} 步"],
  step_ahead_to: ["{0} ahead", "往后第 {0} 步"],
  series_input: ["the {0} steps before step {1}", "第 {1} 步之前的 {0} 步"],
  series_of: ["{0}: {1}", "{0}：{1}"],
  series_from: ["forecast from step {0}", "自第 {0} 步起的预测"],
  series_last: ["the last {0} steps of the series", "序列的最后 {0} 步"],
  series_next: ["next step: {0}", "下一步：{0}"],
  series_drawn: [
    "{0}: the line is the history, dashes are the forecast, dots what really came; filled are the weights of the " +
      "chosen row",
    "{0}：实线为历史，虚线为预测，点为实际值；阴影为所选行的权重",
  ],
  series_key: [
    "line: history · dashes: forecast · dots: what really came · filled: weights of the chosen row",
    "实线：历史 · 虚线：预测 · 点：实际值 · 阴影：所选行的权重",
  ],
};
