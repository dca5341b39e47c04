// @ts-check
/** The weights of one head, and the same with what its mask forbids marked. */

import { getNumbers, query } from "../api.js";
import { after, under } from "../core/masked.js";

/**
 * @param {import("../state.js").Trace} trace
 * @param {import("../state.js").Group} group
 * @param {string} layer @param {number} head
 * @returns {Promise<{ weights: Float32Array, marked: Float32Array }>}
 */
export async function weightsOf(trace, group, layer, head) {
  const at = `/api/v1/traces/${trace.trace_id}/matrix`;
  const weights = /** @type {Float32Array} */ ((await getNumbers(`${at}?${query({ layer, head })}`)).data);
  const marked = after(weights, group.queries.length, group.keys.length, group.causal);
  // a zero that the shape of the mask does not explain: the scores tell, where there are any
  if (!marked.includes(0)) return { weights, marked };
  const scores = await getNumbers(`${at}?${query({ layer, head, stage: "masked" })}`).catch(() => null);
  return { weights, marked: scores ? under(marked, /** @type {Float32Array} */ (scores.data)) : marked };
}
