// @ts-check
/** Lines from queries to keys: of each query the strongest ones, until they hold most of its weight. */

export const MOST = 40000;

/**
 * @param {ArrayLike<number>} weights @param {number} rows @param {number} columns
 * @param {number} mass share of a row's weight that is drawn
 * @param {{ q: number, k: number }} only the links of a query, else of a key; -1 for all
 * @returns {{ links: { q: number, k: number, weight: number }[], cut: boolean }}
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
