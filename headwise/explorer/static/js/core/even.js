// @ts-check
/** Heads without a preference. */

/**
 * What an even head gives to a key, as a mean over rows: in a causal group row i has i + 1, none before the first.
 * @param {number} keys @param {boolean} causal @param {string} which "previous" or another key
 */
export function evenShare(keys, causal, which) {
  if (!causal) return 1 / keys;
  const first = which === "previous" ? 1 : 0;
  const rows = Array.from({ length: Math.max(0, keys - first) }, (_, row) => 1 / (row + first + 1));
  return rows.reduce((sum, share) => sum + share, 0) / Math.max(1, rows.length);
}
