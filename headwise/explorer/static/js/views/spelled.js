// @ts-check
/** What is known of the tokens of a group. */

/** @typedef {import("../state.js").Trace} Trace */
/** @typedef {import("../state.js").Group} Group */
/** @typedef {import("../core/folding.js").Spelled & { kind?: string }} Side */

/**
 * What is known of the tokens of both sides.
 * @param {Trace} trace @param {Group} group @returns {{ queries: Side, keys: Side }}
 */
export const spelled = (trace, group) => (trace.axes && trace.axes[group.name]) || { queries: {}, keys: {} };

/**
 * How many tokens of one sequence were read, where the others were written after them; all, where that is not
 * known. @param {string[]} labels @param {string} output
 */
export function readOf(labels, output) {
  let written = "";
  for (let at = labels.length - 1; at > 0 && written.length < output.length; at -= 1) {
    written = labels[at] + written;
    if (written === output) return at;
  }
  return labels.length;
}

/**
 * How many tokens were read before what the model wrote; 0 where a group has no such seam.
 * @param {{ kind: string, queries: string[], causal: boolean }} group @param {string} output
 */
export function seamOf({ kind, queries, causal }, output) {
  const count = kind === "self" && causal ? readOf(queries, output) : queries.length;
  return count < queries.length ? count : 0;
}
