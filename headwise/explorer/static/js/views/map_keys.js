// @ts-check
/** Keys that only Attend has: they move the chosen cell, and rollout stands behind the last head. */

import { wrapped } from "../keys.js";
import * as state from "../state.js";
import { choose, chosen, moved } from "./heat.js";
import { rolled, rolls, seen } from "./seen.js";

/** The head before or behind. @param {state.Group} group @param {number} by */
export function head(group, by) {
  const count = group.heads + (rolls(group) ? 1 : 0);
  const next = wrapped((rolled(group) ? group.heads : state.place(group).head) + by, count);
  state.go(group, { head: next === group.heads ? -1 : next });
}

/** @param {state.Group} group @param {number} down @param {number} across */
export function move(group, down, across) {
  const trace = state.trace.peek();
  if (!trace) return;
  // the frame follows the keys, not a pointer that rests on the map
  state.hovered.value = null;
  if (group.long) {
    state.lock(moved(state.cell(), [down, across], group));
    return;
  }
  seen(trace, group).then(
    (shown) =>
      choose(moved(chosen(shown), [down, across], shown.group), { ...shown, weights: shown.raw || shown.marked }),
    (error) => {
      state.failed(error);
    },
  );
}
