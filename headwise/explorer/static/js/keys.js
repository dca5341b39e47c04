// @ts-check
/** The keyboard: layer, head, group, view, scale, words, zoom, and the locked cell. */

import * as state from "./state.js";
import { batch } from "./store.js";
import { inside } from "./inside.js";

/** @param {number} value @param {number} count */
export const wrapped = (value, count) => (value + count) % count;

const PLAIN = {
  /** @type {(factor: number) => void} */
  zoom: () => {},
  /** @type {(group: state.Group, by: number) => void} */
  head: (group, by) => state.go(group, { head: wrapped(state.place(group).head + by, group.heads) }),
  /** @type {((group: state.Group, down: number, across: number) => void) | null} */
  move: null,
};
let ofPage = PLAIN;

/** What a page does where others do nothing, or less, until another one comes. @param {Partial<typeof PLAIN>} more */
export const extend = (more) => (ofPage = { ...ofPage, ...more });

/** What every page does. */
export const reset = () => (ofPage = PLAIN);

/** How far a key moves the locked cell: rows, columns. @type {Record<string, [number, number]>} */
export const MOVES = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  Home: [0, -Infinity],
  End: [0, Infinity],
};

/** What a letter does, wherever something is shown or not. @type {Record<string, () => void>} */
const LETTERS = {
  "?": () => void import("./views/help.js").then((view) => view.help()),
  "/": () => /** @type {HTMLElement | null} */ (document.querySelector("#input"))?.focus(),
  v: () => (state.view.value = state.VIEWS[(state.VIEWS.indexOf(state.view.value) + 1) % state.VIEWS.length]),
  n: () => state.scaled(),
  r: () => !inside() && state.ofStage(state.stage.value ? "" : "scores"),
  s: () => state.specialNext(),
  w: () => state.mergedNext(),
  "+": () => ofPage.zoom(1.5),
  "=": () => ofPage.zoom(1.5),
  "-": () => ofPage.zoom(1 / 1.5),
  0: () => ofPage.zoom(0),
};

/** What a letter does to a group of layers. @type {Record<string, (group: state.Group) => void>} */
const OF_GROUP = {
  "[": (group) => state.go(group, { at: wrapped(state.place(group).at - 1, group.layers.length) }),
  "]": (group) => state.go(group, { at: wrapped(state.place(group).at + 1, group.layers.length) }),
  ",": (group) => ofPage.head(group, -1),
  ".": (group) => ofPage.head(group, 1),
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
  else if (group && MOVES[event.key] && ofPage.move && state.view.peek() === "heat") {
    event.preventDefault();
    const [down, across] = MOVES[event.key];
    const far = event.shiftKey ? 10 : 1;
    ofPage.move(group, far * down, far * across);
  }
}

function unlocked() {
  batch(() => {
    state.query.value = -1;
    state.key.value = -1;
  });
}
