// @ts-check
/** Weights in which a pair that a mask forbids is minus infinity: no weight of zero that could have been another. */

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
