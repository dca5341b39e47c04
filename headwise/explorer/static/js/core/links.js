// @ts-check
/** Lines from queries to keys: of each query the strongest ones, until they hold most of its weight. */

/** @typedef {{ q: number, k: number, weight: number }} Link */

export const MOST = 40000;

/**
 * @param {ArrayLike<number>} weights @param {number} rows @param {number} columns
 * @param {number} mass share of a row's weight that is drawn
 * @param {{ q: number, k: number }} only the links of a query, else of a key; -1 for all
 * @returns {{ links: Link[], cut: boolean }}
 */
export function strongest(weights, rows, columns, mass, only) {
  const links = [];
  const order = Array.from({ length: columns }, (_, k) => k);
  for (let q = 0; q < rows; q += 1) {
    if (only.q >= 0 && q !== only.q) continue;
    const at = q * columns;
    let total = 0;
    for (let k = 0; k < columns; k += 1) total += weights[at + k];
    order.sort((one, two) => weights[at + two] - weights[at + one]);
    let held = 0;
    for (const k of order) {
      const weight = weights[at + k];
      if (weight <= 0 || held >= mass * total) break;
      held += weight;
      if (only.q < 0 && only.k >= 0 && k !== only.k) continue;
      if (links.length >= MOST) return { links, cut: true };
      links.push({ q, k, weight });
    }
  }
  return { links, cut: false };
}

/**
 * Parts of a sequence between its special tokens, as of a pair of sentences: the part of each token, -1 for a special
 * one; null where it has other than two parts.
 * @param {number[]} special @param {number} length
 */
export function sentencePair(special, length) {
  const hidden = new Set(special);
  const parts = new Array(length).fill(-1);
  let part = -1;
  for (let at = 0; at < length; at += 1) {
    if (hidden.has(at)) continue;
    if (at === 0 || hidden.has(at - 1)) part += 1;
    parts[at] = part;
  }
  return part === 1 ? parts : null;
}
