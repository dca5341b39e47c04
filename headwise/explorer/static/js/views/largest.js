// @ts-check
/** The cell on which a head opens, and what is known of the tokens of a group. */

/** @typedef {import("../state.js").Trace} Trace */
/** @typedef {import("../state.js").Group} Group */

/**
 * What is known of the tokens of both sides.
 * @param {Trace} trace
 * @param {Group} group
 * @returns {{ queries: import("../core/folding.js").Spelled, keys: import("../core/folding.js").Spelled }}
 */
export const spelled = (trace, group) => (trace.axes && trace.axes[group.name]) || { queries: {}, keys: {} };

/**
 * The tokens of the cell with the largest weight, no special ones where there are others.
 * `rows` and `columns` are the tokens of each; `marked` is minus infinity where a pair is forbidden.
 * @param {{ weights: Float32Array, marked: Float32Array, rows: number[][], columns: number[][] }} head
 * @param {Trace} trace
 * @param {Group} group
 */
export function largestCell({ weights, marked, rows, columns }, trace, group) {
  const { queries, keys } = spelled(trace, group);
  const common = (/** @type {number[][]} */ parts, /** @type {number[]} */ special) => {
    const left = parts.map((_, at) => at).filter((at) => !special.includes(parts[at][0]));
    return left.length ? left : parts.map((_, at) => at);
  };
  // a row that sees one key alone has no choice
  const choosing = common(rows, queries.special || []).filter(
    (q) =>
      marked.subarray(q * columns.length, (q + 1) * columns.length).filter((weight) => weight > -Infinity).length > 1,
  );
  let [best, cell] = [-Infinity, { q: -1, k: -1 }];
  const across = common(columns, keys.special || []);
  for (const q of choosing.length ? choosing : rows.keys()) {
    for (const k of across) {
      const weight = weights[q * columns.length + k];
      if (weight > best) [best, cell] = [weight, { q: rows[q][0], k: columns[k][0] }];
    }
  }
  return cell;
}
