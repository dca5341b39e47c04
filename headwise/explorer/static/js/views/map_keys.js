// @ts-check
/** Keys that only Attend has: they move the chosen cell, and rollout stands behind the last head. */

import { wrapped } from "../keys.js";
import * as state from "../state.js";
import { choose, chosen } from "./heat.js";
import { rolled, rolls, seen } from "./seen.js";

/** The head before or behind. @param {state.Group} group @param {number} by */
export function head(group, by) {
  const count = group.heads + (rolls(group) ? 1 : 0);
  const next = wrapped((rolled(group) ? group.heads : state.place(group).head) + by, count);
  state.go(group, { head: next === group.heads ? -1 : next });
}

/** Moves the chosen cell. @param {state.Group} group @param {number} down @param {number} across */
export function move(group, down, across) {
  const trace = state.trace.peek();
  if (!trace) return;
  if (group.long) {
    const at = state.cell();
    const inside = (/** @type {number} */ value, /** @type {string[]} */ side) =>
      Math.max(0, Math.min(side.length - 1, value));
    state.lock({ q: inside(at.q + down, group.queries), k: inside(at.k + across, group.keys) });
    return;
  }
  const within = (/** @type {number} */ value, /** @type {number} */ count) => Math.max(0, Math.min(count - 1, value));
  seen(trace, group).then(
    (found) => {
      const at = chosen(found);
      const [q, k] = [within(at.q + down, found.group.queries.length), within(at.k + across, found.group.keys.length)];
      choose({ q, k }, { ...found, weights: found.raw || found.marked });
    },
    (error) => {
      state.status.value = error.message;
    },
  );
}
