// @ts-check
/** The weights of one head, and the same with what its mask forbids as minus infinity: no zero that could be more. */

import { getNumbers, query } from "../api.js";

/**
 * @param {import("../state.js").Trace} trace @param {import("../state.js").Group} group
 * @param {string} layer @param {number} head -1: the mean of all
 * @returns {Promise<{ weights: Float32Array, marked: Float32Array }>}
 */
export async function weightsOf(trace, group, layer, head) {
  if (head < 0) return meanOf(trace, group, layer);
  const at = `/api/v1/traces/${trace.trace_id}/matrix`;
  const weights = /** @type {Float32Array} */ ((await getNumbers(`${at}?${query({ layer, head })}`)).data);
  const marked = after(weights, group.queries.length, group.keys.length, group.causal);
  // a zero that the shape of the mask does not explain: the scores tell, where there are any
  if (!marked.includes(0)) return { weights, marked };
  const scores = await getNumbers(`${at}?${query({ layer, head, stage: "masked" })}`).catch(() => null);
  return { weights, marked: scores ? under(marked, /** @type {Float32Array} */ (scores.data)) : marked };
}

/**
 * The mean of the heads of a layer; forbidden is what the mask forbids all of them.
 * @param {import("../state.js").Trace} trace @param {import("../state.js").Group} group @param {string} layer
 */
async function meanOf(trace, group, layer) {
  const heads = await Promise.all(
    Array.from({ length: group.heads }, (_, head) => weightsOf(trace, group, layer, head)),
  );
  const weights = new Float32Array(heads[0].weights.length);
  for (const head of heads) head.weights.forEach((weight, at) => (weights[at] += weight / group.heads));
  const marked = weights.map((weight, at) =>
    heads.every((head) => head.marked[at] === -Infinity) ? -Infinity : weight,
  );
  return { weights, marked };
}

/**
 * A causal mask as far as its shape tells: no query sees a key behind it.
 * @param {Float32Array} weights @param {number} rows @param {number} columns @param {boolean} causal
 */
export function after(weights, rows, columns, causal) {
  if (!causal) return weights;
  const found = weights.slice();
  for (let q = 0; q < rows; q += 1) {
    for (let k = Math.max(0, q + 1 + columns - rows); k < columns; k += 1) {
      if (found[q * columns + k] === 0) found[q * columns + k] = -Infinity;
    }
  }
  return found;
}

/**
 * What scores under a mask say of other pairs, as of a window; in a saved page bytes do, 1 for what is forbidden.
 * @param {Float32Array} weights @param {Float32Array | Uint8Array} scores
 */
export function under(weights, scores) {
  if (scores.length !== weights.length) return weights;
  const forbidden = scores instanceof Uint8Array ? 1 : -Infinity;
  return weights.map((weight, place) => (weight === 0 && scores[place] === forbidden ? -Infinity : weight));
}
