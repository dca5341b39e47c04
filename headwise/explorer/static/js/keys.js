// @ts-check
/** The keyboard: layer, head, group, view, scale, words, zoom, and the locked cell. */

import * as state from "./state.js";
import { batch } from "./store.js";
import { choose, chosen } from "./views/heat.js";
import { inside } from "./inside.js";
import { help } from "./views/help.js";
import { rolled, rolls, seen } from "./views/seen.js";
import { zoom } from "./views/zooming.js";

/** How far a key moves the locked cell: rows, columns. @type {Record<string, [number, number]>} */
const MOVES = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  Home: [0, -Infinity],
  End: [0, Infinity],
};

/** What a letter does, wherever something is shown or not. @type {Record<string, () => void>} */
const LETTERS = {
  "?": help,
  "/": () => /** @type {HTMLElement | null} */ (document.querySelector("#input"))?.focus(),
  v: () => (state.view.value = state.VIEWS[(state.VIEWS.indexOf(state.view.value) + 1) % state.VIEWS.length]),
  n: () => state.scaled(),
  r: () => !inside() && state.ofStage(state.stage.value ? "" : "scores"),
  s: () => state.specialNext(),
  w: () => state.mergedNext(),
  "+": () => zoom(1.5),
  "=": () => zoom(1.5),
  "-": () => zoom(1 / 1.5),
  0: () => zoom(0),
};

/** What a letter does to a group of layers. @type {Record<string, (group: state.Group) => void>} */
const OF_GROUP = {
  "[": (group) => (state.layer.value = wrapped(state.place(group).at - 1, group.layers.length)),
  "]": (group) => (state.layer.value = wrapped(state.place(group).at + 1, group.layers.length)),
  ",": (group) => toHead(group, -1),
  ".": (group) => toHead(group, 1),
  g: (group) => {
    const groups = state.trace.value ? state.trace.value.groups : [];
    state.inGroup(groups[wrapped(groups.indexOf(group) + 1, groups.length)].name);
  },
};

/** What a key does, unless it is typed into something. @param {KeyboardEvent} event */
export function pressed(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  // a dialog has its own
  if (target.closest("dialog") || document.querySelector("dialog[open]")) return;
  const group = state.chosen();
  if (event.key === "Escape") unlocked();
  else if (event.key.length === 1 && !state.singles.value) return;
  else if (LETTERS[event.key]) {
    event.preventDefault();
    LETTERS[event.key]();
  } else if (group && OF_GROUP[event.key]) OF_GROUP[event.key](group);
  else if (group && MOVES[event.key]) move(event, group);
}

/** @param {number} value @param {number} count */
const wrapped = (value, count) => (value + count) % count;

/** The head before or behind; rollout stands behind the last one. @param {state.Group} group @param {number} by */
function toHead(group, by) {
  const count = group.heads + (rolls(group) && state.page.peek() === "attend" ? 1 : 0);
  const next = wrapped((rolled(group) && count > group.heads ? group.heads : state.place(group).head) + by, count);
  state.head.value = next === group.heads ? -1 : next;
}

function unlocked() {
  batch(() => {
    state.query.value = -1;
    state.key.value = -1;
  });
}

/** Moves the locked cell. @param {KeyboardEvent} event @param {state.Group} group */
function move(event, group) {
  const trace = state.trace.peek();
  if (!trace || state.page.peek() !== "attend" || state.view.peek() !== "heat") return;
  event.preventDefault();
  const far = event.shiftKey ? 10 : 1;
  const within = (/** @type {number} */ value, /** @type {number} */ count) => Math.max(0, Math.min(count - 1, value));
  const [down, across] = MOVES[event.key];
  seen(trace, group).then(
    (found) => {
      const at = chosen(found);
      const q = within(at.q + far * down, found.group.queries.length);
      const k = within(at.k + far * across, found.group.keys.length);
      choose({ q, k }, { ...found, weights: found.raw || found.marked });
    },
    (error) => {
      state.status.value = error.message;
    },
  );
}
