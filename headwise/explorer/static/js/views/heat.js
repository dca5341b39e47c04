// @ts-check
/** The large map of one head: labels on both sides, the number under the pointer, a cell that can be locked. */

import { h } from "../dom.js";
import { effect } from "../store.js";
import { entries } from "../core/color.js";
import { hatched, painted, shown, under } from "../core/heatmap.js";
import { cut, number, shown as visible } from "../core/text.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/** Labels of more tokens would be too small to read. */
export const LABELLED = 48;
const EVERY = Int16Array.from({ length: 256 }, (_, entry) => entry);
/** Labels of rows that are lower would lie over each other, pixels. */
const LEGIBLE = 12;
/** Padding of what a map stands in, pixels. */
const SPARE = 28;

/**
 * @param {HTMLElement} place
 * @param {{ weights: Float32Array, group: state.Group, title: string }} shownHead
 * @returns {() => void}
 */
export function mount(place, { weights, group, title }) {
  const [rows, columns] = [group.queries.length, group.keys.length];
  const canvas = h("canvas", { class: "heat", tabindex: 0, role: "img" });
  const tip = h("div", { class: "tip", hidden: true });
  const left = h("div", { class: "rows" }, labels(group.queries));
  const top = h("div", { class: "columns" }, labels(group.keys));
  const frame = h("div", { class: "frame" }, h("div", {}), top, left, h("div", { class: "cells" }, canvas, tip));
  const [told, colours] = [h("span"), h("canvas", { class: "ramp", width: 256, height: 1, "aria-hidden": "true" })];
  const scale = h("button", { class: "small", onclick: () => state.scaled() }, () => `${t("scale")}: ${t(state.scale.value)}`);
  const bar = h("div", { class: "legend" }, colours, told, scale, h("span", {}, () => `${t("from")} · ${t("to")}`));
  place.append(frame, bar);
  const cell = canvas.parentElement;
  const side = fitting(rows, columns, place.clientWidth - left.offsetWidth - SPARE);
  if (side < LEGIBLE) left.replaceChildren();
  cell.style.width = `${side * columns}px`;
  cell.style.height = `${side * rows}px`;
  frame.style.setProperty("--side", `${side}px`);
  let cells = document.createElement("canvas");
  let frameAsked = 0;

  const paint = () => {
    frameAsked = 0;
    const at = state.hovered.peek();
    const q = at ? at.q : state.query.peek();
    const k = at ? at.k : state.key.peek();
    shown(canvas, cells, { q, k, locked: !at }, rows, columns);
    tipped(tip, at, weights, group, side);
  };
  const soon = () => {
    if (!frameAsked) frameAsked = requestAnimationFrame(paint);
  };
  const ends = [
    effect(() => {
      const largest = largestOf(weights);
      const name = state.dark.value ? "ink dark" : "ink light";
      const found = entries(weights, largest, /** @type {any} */ (state.scale.value));
      cells = hatched(painted(found, rows, columns, name), found, rows, columns, side);
      colours.getContext("2d").drawImage(painted(EVERY, 1, 256, name), 0, 0);
      told.textContent = `0 … ${number(largest)}${weights.includes(-Infinity) ? ` · ▨ ${t("forbidden")}` : ""}`;
      canvas.setAttribute("aria-label", summary(weights, group, title));
      soon();
    }),
    effect(() => {
      void [state.hovered.value, state.query.value, state.key.value];
      soon();
    }),
  ];
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    state.hovered.value = same(state.hovered.peek(), under(canvas, event, rows, columns));
  });
  canvas.addEventListener("pointerleave", () => {
    state.hovered.value = null;
  });
  canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const found = under(canvas, event, rows, columns);
    if (found) lock(found.q, found.k, weights, group);
  });
  return () => {
    ends.forEach((end) => end());
    cancelAnimationFrame(frameAsked);
    state.hovered.value = null;
  };
}

/**
 * Locks a cell, and says what it holds.
 * @param {number} q @param {number} k @param {ArrayLike<number>} weights @param {state.Group} group
 */
export function lock(q, k, weights, group) {
  state.query.value = q;
  state.key.value = k;
  state.status.value = sentence(q, k, weights, group);
}

/** @param {number} q @param {number} k @param {ArrayLike<number>} weights @param {state.Group} group */
function sentence(q, k, weights, group) {
  const value = weights[q * group.keys.length + k];
  const told = value === -Infinity ? t("forbidden") : number(value);
  return `${visible(group.queries[q])} → ${visible(group.keys[k])} ${told}`;
}

/** @param {HTMLElement} tip @param {{ q: number, k: number } | null} at @param {Float32Array} weights @param {state.Group} group @param {number} side */
function tipped(tip, at, weights, group, side) {
  // a row may be looked at without any of its cells
  tip.hidden = !at || at.k < 0;
  if (!at || at.k < 0) return;
  tip.textContent = sentence(at.q, at.k, weights, group);
  const box = /** @type {HTMLElement} */ (tip.parentElement);
  const x = (at.k + 1) * side + 6;
  // it flips where it would be cut
  const flips = box.getBoundingClientRect().left + x + tip.offsetWidth > window.innerWidth - 8;
  tip.style.left = `${flips ? Math.max(-box.offsetLeft, at.k * side - tip.offsetWidth - 6) : x}px`;
  tip.style.top = `${at.q * side}px`;
}

/** @param {string[]} tokens */
function labels(tokens) {
  if (tokens.length > LABELLED) return [];
  return tokens.map((token) => h("span", { title: visible(token) }, cut(token, 12)));
}

/** How wide a cell is. @param {number} rows @param {number} columns */
export const sideOf = (rows, columns) => Math.max(4, Math.min(28, Math.floor(560 / Math.max(rows, columns, 1))));

/** The same where there is little room: smaller, as long as labels can be read. @param {number} rows @param {number} columns @param {number} room */
function fitting(rows, columns, room) {
  const side = sideOf(rows, columns);
  return room > 0 && columns <= LABELLED ? Math.min(side, Math.max(14, Math.floor(room / columns))) : side;
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
