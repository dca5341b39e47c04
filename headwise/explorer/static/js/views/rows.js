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
    this.load(q).catch((error) => (state.status.value = error.message));
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

/**
 * The cell on which a large head opens: in a graph read for one node, what this takes most from another; else the
 * largest.
 * @param {Rows} rows @param {state.Trace} trace
 * @param {() => Promise<{ largest: { q: number, k: number } }>} overview
 */
export async function opening(rows, trace, overview) {
  const node = trace.places?.chosen ?? null;
  if (node === null) {
    const { q, k } = (await overview()).largest;
    return { q, k };
  }
  const row = await rows.load(node);
  const best = row.reduce((most, weight, at) => (at !== node && weight > (row[most] || 0) ? at : most), -1);
  return { q: node, k: best < 0 ? node : best };
}
