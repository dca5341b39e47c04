/** The names of the methods of attribution: English, Chinese. */

export const WORDS = {
  by: ["What counts, by method", "归因方法"],
  by_norms: ["Norms", "范数"],
  by_rollout: ["Rollout", "注意力展开"],
  by_alti: ["ALTI", "ALTI"],
  by_flow: ["Flow", "注意力流"],
  by_gradient: ["Gradient × input", "梯度 × 输入"],
  by_integrated: ["Integrated gradients", "积分梯度"],
  by_occlusion: ["Occlusion", "遮挡"],
  by_ablation: ["Ablation of heads", "头消融"],
  by_lens: ["Logit lens", "Logit lens"],
};
