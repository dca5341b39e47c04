// @ts-check
/** The large map of one head: labels on both sides, the number under the pointer, a cell that can be locked. */

import { h } from "../dom.js";
import { batch, effect } from "../store.js";
import { entries } from "../core/color.js";
import { holding } from "../core/folding.js";
import { marked, painted, windowed } from "../core/heatmap.js";
import { cut, number } from "../core/text.js";
import { cellAt, showing } from "../core/zoom.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import * as axis from "./axis.js";
import * as minimap from "./minimap.js";
import * as sound from "./sound.js";
import * as zooming from "./zooming.js";

/** Labels of more tokens would be too small to read. */
export const LABELLED = 48;
const EVERY = Int16Array.from({ length: 256 }, (_, entry) => entry);
/** Padding of what a map stands in, pixels. */
const SPARE = 28;
/** Letters of a token beside its number. */
const LETTERS = 60;
/** Pixels of the longer side of a map. */
const LARGEST = 560;

/** @typedef {{ weights: Float32Array, group: state.Group, title: string, rows?: number[][], columns?: number[][] }} Head tokens of rows and columns, where these are not one each */

/**
 * @param {HTMLElement} place @param {Head & { beside?: import("./sound.js").Heard | null }} head
 * @returns {() => void}
 */
export function mount(place, head) {
  const { weights, group, title } = head;
  const [rows, columns] = [group.queries.length, group.keys.length];
  const canvas = h("canvas", { class: "heat", tabindex: 0, role: "img" });
  const tip = h("div", { class: "tip", hidden: true });
  const [left, top, sides] = [h("div"), h("div"), { top: h("div"), left: h("div") }];
  const cell = h("div", { class: "cells" }, canvas, tip);
  place.append(h("div", { class: "frame" }, h("div"), h("div", {}, top, sides.top), h("div", { class: "beside" }, left, sides.left), cell));
  const labelled = [axis.mount(left, group.queries, true), axis.mount(top, group.keys, false)];
  const heard = head.beside ? sound.mount(sides, head.beside) : null;
  const beside = /** @type {HTMLElement} */ (left.parentElement).offsetWidth;
  const bounds = boundsOf(rows, columns, place.clientWidth - beside - SPARE);
  cell.style.width = `${bounds.width}px`;
  cell.style.height = `${bounds.height}px`;
  const zoomed = zooming.mount(canvas, bounds);
  const { told, ramped } = legend(place);
  const small = Math.max(rows, columns) > minimap.FROM ? minimap.mount(place, bounds) : null;
  let cells = document.createElement("canvas");
  /** @type {Int16Array} */
  let found = new Int16Array(0);
  const backdrop = document.createElement("canvas");
  let [frameAsked, stale, mounted] = [0, true, false];
  pointed(canvas, head, bounds, zoomed.dragged);

  const paint = () => {
    frameAsked = 0;
    const window = zooming.now(bounds);
    if (stale) {
      stale = false;
      backed(backdrop, canvas, cells, found, window, columns);
      labelled[0](window, bounds.height);
      labelled[1](window, bounds.width);
      if (heard) heard(window, bounds);
    }
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(backdrop, 0, 0);
    const at = state.hovered.peek();
    marked(canvas, at || locked(head), dotted(window));
    tipped(tip, at, weights, group, window);
  };
  const soon = () => {
    if (!frameAsked) frameAsked = requestAnimationFrame(paint);
  };
  const again = () => {
    stale = true;
    soon();
  };
  const ends = [
    effect(() => {
      const largest = largestOf(weights);
      const name = state.dark.value ? "ink dark" : "ink light";
      found = entries(weights, largest, /** @type {any} */ (state.scale.value));
      cells = painted(found, rows, columns, name);
      if (small) small.put(found, name);
      ramped(name);
      told.textContent = `${range(weights)}${weights.includes(-Infinity) ? ` · ▨ ${t("forbidden")}` : ""}`;
      canvas.setAttribute("aria-label", summary(weights, group, title));
      again();
    }),
    effect(() => {
      void [state.hovered.value, state.query.value, state.key.value];
      soon();
    }),
    effect(() => {
      void state.span.value;
      again();
    }),
    // a cell is seen when it is locked; a window that was moved away stays where it is from head to head
    effect(() => {
      const cell = locked(head);
      if (mounted || state.span.peek().times === 1) zooming.put(showing(zooming.now(bounds), bounds, cell), bounds);
      mounted = true;
    }),
  ];
  return () => {
    ends.forEach((end) => end());
    zoomed.end();
    if (small) small.end();
    cancelAnimationFrame(frameAsked);
    state.hovered.value = null;
  };
}

/** What the colours mean, and the next scale. @param {HTMLElement} place */
function legend(place) {
  const [told, colours] = [h("span"), h("canvas", { class: "ramp", width: 256, height: 1, "aria-hidden": "true" })];
  const scale = h("button", { class: "small", onclick: () => state.scaled() }, () => `${t("scale")}: ${t(state.scale.value)}`);
  place.append(h("div", { class: "legend" }, colours, told, scale, h("span", {}, () => `${t("from")} · ${t("to")}`)));
  const ramped = (/** @type {string} */ name) => colours.getContext("2d").drawImage(painted(EVERY, 1, 256, name), 0, 0);
  return { told, ramped };
}

/**
 * Follows the pointer: what is under it is hovered, a click that is no drag locks it.
 * @param {HTMLCanvasElement} canvas @param {Head} head @param {import("../core/zoom.js").Bounds} bounds @param {() => boolean} dragged
 */
function pointed(canvas, head, bounds, dragged) {
  const under = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    return cellAt(zooming.now(bounds), bounds, { x: event.clientX - box.left, y: event.clientY - box.top });
  };
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    state.hovered.value = same(state.hovered.peek(), under(event));
  });
  canvas.addEventListener("pointerleave", () => {
    state.hovered.value = null;
  });
  canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const at = dragged() ? null : under(event);
    if (at) choose(at, head);
  });
}

/** The window in dots of the screen. @param {import("../core/zoom.js").Window} window */
const dotted = ({ x, y, side }) => ({ x, y, side: side * (globalThis.devicePixelRatio || 1) });

/** What stands behind the marks of cells, as large as the canvas is seen. @param {HTMLCanvasElement} backdrop @param {HTMLCanvasElement} canvas @param {HTMLCanvasElement} cells @param {Int16Array} found @param {import("../core/zoom.js").Window} window @param {number} columns */
function backed(backdrop, canvas, cells, found, window, columns) {
  const dots = globalThis.devicePixelRatio || 1;
  const [width, height] = [Math.round(canvas.clientWidth * dots), Math.round(canvas.clientHeight * dots)];
  for (const one of [backdrop, canvas]) [one.width, one.height] = [width, height];
  windowed(backdrop, cells, found, dotted(window), columns);
}

/** The locked cell as a row and a column; -1 where it is not among them. @param {Head} head */
export const locked = ({ rows, columns }) => ({
  q: rows ? holding(rows, state.query.value) : state.query.value,
  k: columns ? holding(columns, state.key.value) : state.key.value,
});

/** The row that is looked at: under the pointer, else the locked one. @param {Head} head */
export const lookedAt = (head) => (state.hovered.value ? state.hovered.value.q : locked(head).q);

/**
 * Locks a cell, a query or a key, and says what it holds; -1 for none.
 * @param {{ q: number, k: number }} cell @param {Head} head
 */
export function choose({ q, k }, { weights, group, rows, columns }) {
  batch(() => {
    state.query.value = rows && q >= 0 ? rows[q][0] : q;
    state.key.value = columns && k >= 0 ? columns[k][0] : k;
  });
  state.status.value = sentence(q, k, weights, group);
}

/** From zero to the largest number. @param {Float32Array} weights */
export const range = (weights) => (largestOf(weights) > 0 ? `0 … ${number(largestOf(weights))}` : t("all_zero"));

/** @param {number} q @param {number} k @param {ArrayLike<number>} weights @param {state.Group} group */
function sentence(q, k, weights, group) {
  if (q < 0 || k < 0) return q < 0 && k < 0 ? "" : cut(q < 0 ? group.keys[k] : group.queries[q], LETTERS);
  const value = weights[q * group.keys.length + k];
  const told = value === -Infinity ? t("forbidden") : number(value);
  return `${cut(group.queries[q], LETTERS)} → ${cut(group.keys[k], LETTERS)} ${told}`;
}

/** @param {HTMLElement} tip @param {{ q: number, k: number } | null} at @param {Float32Array} weights @param {state.Group} group @param {import("../core/zoom.js").Window} window */
function tipped(tip, at, weights, group, { x, y, side }) {
  // a row may be looked at without any of its cells
  tip.hidden = !at || at.k < 0;
  if (!at || at.k < 0) return;
  tip.textContent = sentence(at.q, at.k, weights, group);
  const box = /** @type {HTMLElement} */ (tip.parentElement);
  const left = (at.k + 1 - x) * side + 6;
  // it flips where it would be cut
  const flips = box.getBoundingClientRect().left + left + tip.offsetWidth > globalThis.innerWidth - 8;
  tip.style.left = `${flips ? Math.max(-box.offsetLeft, (at.k - x) * side - tip.offsetWidth - 6) : left}px`;
  tip.style.top = `${(at.q - y) * side}px`;
}

/** How wide a cell is. @param {number} rows @param {number} columns */
export const sideOf = (rows, columns) => Math.max(4, Math.min(28, Math.floor(560 / Math.max(rows, columns, 1))));

/**
 * How large a map and its cells are: all of it is seen at first, as far as a cell has a pixel.
 * @param {number} rows @param {number} columns @param {number} room
 */
function boundsOf(rows, columns, room) {
  const most = 48;
  if (Math.max(rows, columns) <= LABELLED) {
    const side = sideOf(rows, columns);
    // labels are read without the wheel: the map may then be wider than its panel
    const least = room > 0 ? Math.min(side, Math.max(14, Math.floor(room / Math.max(1, columns)))) : side;
    return { rows, columns, width: least * columns, height: least * rows, least, most };
  }
  const limit = room > 0 ? Math.min(LARGEST, Math.max(room, 64)) : LARGEST;
  const least = Math.max(1, Math.floor(Math.min(limit / columns, LARGEST / rows)));
  return { rows, columns, width: Math.min(limit, least * columns), height: Math.min(LARGEST, least * rows), least, most };
}

/** The largest of the finite numbers, 0 at least. @param {Float32Array} values */
export function largestOf(values) {
  let found = 0;
  for (const value of values) if (value > found && value < Infinity) found = value;
  return found;
}

/** Where the largest numbers are, the largest first. @param {ArrayLike<number>} values @param {number} most */
function strongest(values, most) {
  /** @type {number[]} */
  const found = [];
  for (let at = 0; at < values.length; at += 1) {
    // most are smaller than all that are kept
    if (found.length === most && values[at] <= values[found[most - 1]]) continue;
    let before = found.length;
    while (before > 0 && values[found[before - 1]] < values[at]) before -= 1;
    found.splice(before, 0, at);
    if (found.length > most) found.pop();
  }
  return found;
}

/** @param {Float32Array} weights @param {state.Group} group @param {string} title */
function summary(weights, group, title) {
  const columns = group.keys.length;
  const pairs = strongest(weights, 3).map((place) => sentence(Math.floor(place / columns), place % columns, weights, group));
  return `${title}: ${pairs.join("; ")}`;
}

/** The one before where nothing has changed, so that nothing is drawn again. @param {any} before @param {any} now */
const same = (before, now) => (before && now && before.q === now.q && before.k === now.k ? before : now);
