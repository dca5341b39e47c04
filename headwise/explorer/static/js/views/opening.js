// @ts-check
/** The cell on which a head opens. */

import { oneSequence } from "../state.js";
import { readOf, spelled } from "./spelled.js";

/** Weights above 1 - 1 / CERTAIN tell less the nearer they are to 1. */
const CERTAIN = 10;
/** A weight below this tells no more by its distance: the largest one is rather looked at. */
const FAINT = 0.15;
/** Rows beyond which a causal head opens in the later half: the first ones have few keys. */
const MANY = 60;

/** @typedef {import("./spelled.js").Trace} Trace */
/** @typedef {import("./spelled.js").Group} Group */

/**
 * The tokens of the cell that tells most: between two sequences the largest weight, if it can be of the largest of
 * rows; within one the largest on another token than its own and the first (in a graph read for one node: of its row);
 * else the largest. Special tokens take part only where there are no others.
 * `rows`, `columns`: the tokens of each; `marked`: minus infinity where a pair is forbidden.
 * @param {{ weights: Float32Array, marked: Float32Array, rows: number[][], columns: number[][] }} head
 * @param {Trace} trace @param {Group} group
 */
export function openingCell({ weights, marked, rows, columns }, trace, group) {
  const { queries, keys } = spelled(trace, group);
  const common = (/** @type {number[][]} */ parts, /** @type {number[]} */ special) => {
    const left = parts.map((_, at) => at).filter((at) => !special.includes(parts[at][0]));
    return left.length ? left : parts.map((_, at) => at);
  };
  const within = oneSequence(group);
  // a graph that was read for a node opens on its row
  const node = trace.places?.chosen ?? null;
  const given = within && rows.some(([first]) => first === node);
  // a row that sees one key alone has no choice
  const choosing = common(rows, queries.special || []).filter(
    (q) =>
      marked.subarray(q * columns.length, (q + 1) * columns.length).filter((weight) => weight > -Infinity).length > 1,
  );
  // what goes on from its input opens on what it was given
  const count = within && group.causal ? readOf(group.queries, trace.output) : group.queries.length;
  const read = choosing.filter((q) => rows[q][0] < count);
  const reading = within && group.causal && read.length > MANY ? read.slice(read.length / 2) : read;
  const across = common(columns, keys.special || []);
  // what else a row looks at comes after what it looks at most
  const far = (/** @type {number} */ q, /** @type {number} */ k, /** @type {boolean} */ most) =>
    within ? Number(q !== k && (k > 0 || given)) : most || group.kind === "pooled" ? 1 : 1e-3;
  let [best, cell, top, largest] = [[-Infinity, -Infinity], { q: -1, k: -1 }, -Infinity, { q: -1, k: -1 }];
  const from = given
    ? [rows.findIndex(([first]) => first === node)]
    : reading.length
      ? reading
      : choosing.length
        ? choosing
        : rows.keys();
  for (const q of from) {
    const most = Math.max(...weights.subarray(q * columns.length, (q + 1) * columns.length));
    for (const k of across) {
      const weight = weights[q * columns.length + k];
      // a row that looks at one key alone has no shares to compare
      const merit = [weight * far(q, k, weight >= most) * Math.min(1, CERTAIN * (1 - weight)), weight];
      if (merit[0] > best[0] || (merit[0] === best[0] && merit[1] > best[1]))
        [best, cell] = [merit, { q: rows[q][0], k: columns[k][0] }];
      if (!within && weight > top) [top, largest] = [weight, { q: rows[q][0], k: columns[k][0] }];
    }
  }
  return !within && best[1] < FAINT ? largest : cell;
}
