// @ts-check
/** Exact rows of a head of a large input, asked for when they are looked at, and the one on which it opens. */

import { getNumbers, query } from "../api.js";
import { signal } from "../store.js";
import * as state from "../state.js";

/** Rows of one head; the latest is a signal. */
export class Rows {
  /** @param {string} path of the trace @param {string} layer @param {number} head */
  constructor(path, layer, head) {
    this.asked = (/** @type {number} */ q) => `${path}/rows?${query({ layer, head, q })}`;
    this.latest = signal(/** @type {{ q: number, row: Float32Array } | null} */ (null));
  }

  /** The row of a query; null while it comes. */
  at = (/** @type {number} */ q) => {
    const latest = this.latest.value;
    if (latest && latest.q === q) return latest.row;
    this.load(q).catch(state.failed);
    return null;
  };

  /** @param {number} q */
  async load(q) {
    const { data } = await getNumbers(this.asked(q));
    const row = /** @type {Float32Array} */ (data);
    this.latest.value = { q, row };
    return row;
  }
}

/** Rows of which the links and the text of a large head open on one, spread over the later half. */
const TRIED = 5;

/**
 * The cell on which a large head opens: in a graph read for one node, what this takes most from another; else the
 * largest.
 * @param {Rows} rows @param {state.Trace} trace
 * @param {() => Promise<{ q: number, k: number }>} largest
 */
export async function opening(rows, trace, largest) {
  const node = trace.places?.chosen ?? null;
  if (node === null) return largest();
  return { q: node, k: largestOtherKey(await rows.load(node), node) };
}

/**
 * The largest weight on another key than its own; its own where there is none.
 * @param {Float32Array} row @param {number} own -1 for none
 */
function largestOtherKey(row, own) {
  const best = row.reduce((most, weight, at) => (at !== own && weight > (row[most] || 0) ? at : most), -1);
  return best < 0 ? own : best;
}

/**
 * The largest weight on another key in a few rows of the later half: that of all is in a row of two keys.
 * @param {Rows} rows @param {state.Group} group
 */
export async function openingRow(rows, group) {
  const last = group.queries.length - 1;
  const tried = Array.from({ length: TRIED }, (_, at) => Math.round(last * (1 - at / (2 * (TRIED - 1)))));
  const cells = await Promise.all(
    [...new Set(tried)].map(async (q) => {
      const row = await rows.load(q);
      const k = largestOtherKey(row, state.oneSequence(group) ? q : -1);
      return { q, k, weight: row[k] };
    }),
  );
  const { q, k } = cells.reduce((best, cell) => (cell.weight > best.weight ? cell : best));
  return { q, k };
}
