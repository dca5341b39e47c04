// @ts-check
/** Lines from queries to keys: of each query the strongest ones, until they hold most of its weight. */

/** @typedef {{ q: number, k: number, weight: number }} Link */

export const MOST = 40000;

/**
 * The links of a row lie in the order of its keys.
 * @param {ArrayLike<number>} weights @param {number} rows @param {number} columns
 * @param {number} mass share of a row's weight that is drawn
 * @param {{ q: number, k: number }} only the links of a query, else of a key; -1 for all
 * @returns {{ links: Link[], cut: boolean }}
 */
export function strongest(weights, rows, columns, mass, only) {
  const links = [];
  const [row, sorted] = [new Float32Array(columns), new Float32Array(columns)];
  for (let q = 0; q < rows; q += 1) {
    if (only.q >= 0 && q !== only.q) continue;
    for (let k = 0; k < columns; k += 1) row[k] = weights[q * columns + k];
    // without a comparison of its own, numbers are sorted many times as fast as places by their numbers
    sorted.set(row);
    sorted.sort();
    const { least, equal } = reach(sorted, mass);
    let left = equal;
    for (let k = 0; k < columns; k += 1) {
      const weight = row[k];
      if (!(weight >= least) || (weight === least && (left -= 1) < 0)) continue;
      if (only.q < 0 && only.k >= 0 && k !== only.k) continue;
      if (links.length >= MOST) return { links, cut: true };
      links.push({ q, k, weight });
    }
  }
  return { links, cut: false };
}

/**
 * The least of the largest weights that together reach a share of the sum, and how many of its size are among them.
 * @param {Float32Array} sorted a row, the least first @param {number} mass
 */
function reach(sorted, mass) {
  let total = 0;
  for (const weight of sorted) total += weight;
  let [held, least, equal] = [0, Infinity, 0];
  for (let at = sorted.length - 1; at >= 0 && sorted[at] > 0 && held < mass * total; at -= 1) {
    equal = sorted[at] === least ? equal + 1 : 1;
    least = sorted[at];
    held += least;
  }
  return { least, equal };
}

/**
 * The part of each token between special ones, as of a pair of sentences, -1 for these; null for other than two.
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
