// @ts-check
/** Whether a model spreads its attention almost evenly in every head, as one does that is not trained. */

import { getNumbers, query } from "../api.js";

/** A share of the entropy of equal weights from which on a row is as good as even. */
export const EVEN = 0.95;

/**
 * The least share that a head reaches of the entropy of equal weights. @param {import("../core/npy.js").Numbers} rows
 * of all layers and heads @param {number} visible keys that the query may see
 */
export function leastShare({ data, shape }, visible) {
  const keys = shape[2];
  const share = (/** @type {number} */ head) => {
    let entropy = 0;
    for (let at = head * keys; at < (head + 1) * keys; at += 1)
      if (data[at] > 0) entropy -= data[at] * Math.log(data[at]);
    return Math.min(1, entropy / Math.log(visible));
  };
  return visible < 2 ? 1 : Math.min(...Array.from({ length: shape[0] * shape[1] }, (_, head) => share(head)));
}

/** The same over the last row of every group of a trace. @param {import("../state.js").Trace} trace */
export async function evenness({ trace_id, groups }) {
  const shares = groups.map(async ({ name, queries, keys, causal }) => {
    const q = queries.length - 1;
    const rows = await getNumbers(`/api/v1/traces/${trace_id}/row?${query({ group: name, q })}`);
    return leastShare(rows, causal ? q + 1 : keys.length);
  });
  return Math.min(1, ...(await Promise.all(shares)));
}
