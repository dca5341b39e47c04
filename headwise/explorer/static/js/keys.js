// @ts-check
/** The keyboard: layer, head, view, scale, and the locked cell. */

import * as state from "./state.js";
import { lock } from "./views/heat.js";
import { weightsOf } from "./views/marked.js";

const MOVES = /** @type {Record<string, [number, number]>} */ ({
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
});

/** What a key does, unless it is typed into something. @param {KeyboardEvent} event */
export function pressed(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  const group = state.chosen();
  const wrap = (/** @type {number} */ value, /** @type {number} */ count) => (value + count) % count;
  if (event.key === "/") {
    event.preventDefault();
    /** @type {HTMLElement | null} */ (document.querySelector("#input"))?.focus();
  } else if (event.key === "Escape") {
    state.query.value = -1;
    state.key.value = -1;
  } else if (event.key === "v") state.view.value = state.VIEWS[(state.VIEWS.indexOf(state.view.value) + 1) % state.VIEWS.length];
  else if (event.key === "n") state.scaled();
  else if (!group) return;
  else if (event.key === "[") state.layer.value = wrap(state.layer.value - 1, group.layers.length);
  else if (event.key === "]") state.layer.value = wrap(state.layer.value + 1, group.layers.length);
  else if (event.key === ",") state.head.value = wrap(state.head.value - 1, group.heads);
  else if (event.key === ".") state.head.value = wrap(state.head.value + 1, group.heads);
  else if (MOVES[event.key]) move(event, group);
}

/** Moves the locked cell. @param {KeyboardEvent} event @param {state.Group} group */
function move(event, group) {
  const trace = state.trace.peek();
  if (!trace || state.page.peek() !== "attend" || state.view.peek() !== "heat") return;
  event.preventDefault();
  const far = event.shiftKey ? 10 : 1;
  const within = (/** @type {number} */ value, /** @type {number} */ count) => Math.max(0, Math.min(count - 1, value));
  const [down, across] = MOVES[event.key];
  const q = within(state.query.peek() + far * down, group.queries.length);
  const k = within(state.key.peek() + far * across, group.keys.length);
  const { layer, head } = state.place(group);
  weightsOf(trace, group, layer, head).then(
    ({ marked }) => lock(q, k, marked, group),
    (error) => {
      state.status.value = error.message;
    },
  );
}
