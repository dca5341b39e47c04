// @ts-check
/** A matrix with labels on both sides whose looked-at cell is shared with other matrices. */

import { h } from "../dom.js";
import { effect } from "../store.js";
import { entries, signed } from "../core/color.js";
import { LARGEST, NUMERALS } from "../core/fit.js";
import { marked, numbered, painted, parted, under, windowed } from "../core/heatmap.js";
import { MOVES } from "../keys.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import * as axis from "./axis.js";
import * as legend from "./legend.js";

/** Pixels to the right of a map that fills its place. */
const SPARE = 12;
/** Pixels of a cell at most, without a legend. */
const SMALL = 28;

/**
 * @typedef {{ values: ArrayLike<number>, rows: string[], columns: string[], top: number, low?: number,
 *   signed?: boolean, title: string, width?: number, cell: { value: any, peek: () => any },
 *   told: (q: number, k: number) => string, pick?: (q: number, k: number) => void,
 *   spot?: () => { q: number, k: number }, quantity?: string, absent?: string, sides?: { from: string, to: string },
 *   room?: { rows: string[][], columns: string[][] }, most?: () => number }} Matrix
 * `quantity`: what the numbers are, of a map with a legend, as wide as its place; `absent`: minus infinity in words;
 * `low`: where colours begin; `spot`: the cell that is marked while none is looked at; `most`: pixels of a cell at
 * most; `room`: labels of all maps that leave as much room
 */

/** @param {HTMLElement} place @param {Matrix} matrix */
export function mount(place, matrix) {
  const [rows, columns] = [matrix.rows.length, matrix.columns.length];
  const canvas = h("canvas", { class: "heat", tabindex: 0, role: "img", "aria-label": matrix.title });
  const tip = h("div", { class: "tip", hidden: true });
  const cells = h("div", { class: "cells" }, canvas, tip);
  const { sides } = matrix;
  const { room = { rows: [matrix.rows], columns: [matrix.columns] } } = matrix;
  const [left, above] = [h("div"), h("div")];
  const beside = axis.mount(left, matrix.rows, "rows", Math.max(...room.rows.map((all) => axis.longest(all))) + 12);
  const titled = (/** @type {any} */ text) =>
    sides ? h("div", { class: text && "axis-title" }, text && t(text)) : null;
  const frame = h(
    "div",
    { class: sides ? "frame titled" : "frame" },
    [titled(""), titled(""), titled(sides && sides.to), titled("")],
    h("div", {}),
    above,
    titled(sides && sides.from),
    left,
    cells,
  );
  place.append(frame);
  const wide = matrix.quantity
    ? place.getBoundingClientRect().right - cells.getBoundingClientRect().left - SPARE
    : matrix.width || 300;
  const most = matrix.most?.() || (matrix.quantity ? LARGEST : SMALL);
  const side = Math.max(4, Math.min(most, Math.floor(wide / Math.max(rows, columns, 1))));
  const label = Math.max(...room.columns.map((all) => axis.longest(all)));
  const level = label + 6 <= side;
  const over = axis.mount(above, matrix.columns, level ? "level" : "upright", level ? 22 : label + 10);
  const explain = matrix.quantity
    ? legend.mount(place, null, () => (side < 6 && matchMedia("(pointer: coarse)").matches ? t("enlarge_touch") : ""))
    : null;
  cells.style.width = `${side * columns}px`;
  cells.style.height = `${side * rows}px`;
  const within = (/** @type {{ q: number, k: number } | null} */ at) =>
    at && at.q < rows && at.k < columns && at.q >= 0;
  const end = effect(() => {
    const how = shaded(matrix);
    const image = painted(how.cells, rows, columns, how.name);
    const numerals = how.numeral && side >= NUMERALS ? how.numeral : null;
    if (explain) explain(/** @type {legend.Shading} */ (how), Float32Array.from(matrix.values), Boolean(numerals));
    return effect(() => {
      const at = matrix.cell.value;
      const window = { x: 0, y: 0, side: fitted(canvas, columns) };
      windowed(canvas, image, how.cells, window, columns);
      if (explain) parted(canvas, window, getComputedStyle(canvas).getPropertyValue("--panel").trim());
      if (numerals) numbered(canvas, window, rows, columns, numerals);
      const mark = at || (matrix.spot && matrix.spot());
      if (within(mark)) marked(canvas, mark, window);
      const { q, k } = within(mark) ? mark : { q: -1, k: -1 };
      beside({ x: 0, y: 0, side }, side * rows, q);
      over({ x: 0, y: 0, side }, side * columns, k);
      tip.hidden = !within(at) || at.k < 0;
      if (tip.hidden) return;
      tip.textContent = matrix.told(at.q, at.k);
      const left = (at.k + 1) * side + 6;
      const from = cells.getBoundingClientRect().left;
      // what overflows the panel is cut
      const panel = (cells.closest(".panel") || document.body).getBoundingClientRect();
      const flips = from + left + tip.offsetWidth > Math.min(innerWidth, panel.right) - 8;
      const most = Math.max(0, panel.left) + 8 - from;
      tip.style.left = `${flips ? Math.max(most, at.k * side - tip.offsetWidth - 6) : left}px`;
      tip.style.top = `${at.q * side}px`;
    });
  });
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const [was, now] = [matrix.cell.peek(), under(canvas, event, rows, columns)];
    if (!was || !now || was.q !== now.q || was.k !== now.k) matrix.cell.value = now;
  });
  canvas.addEventListener("pointerleave", () => (matrix.cell.value = null));
  canvas.addEventListener("blur", () => (matrix.cell.value = null));
  canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    // a finger that taps has left before
    matrix.cell.value = under(canvas, event, rows, columns);
    chosen(matrix);
  });
  canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => pressed(event, matrix, rows, columns));
  return end;
}

/**
 * Its numbers as colours, in their own scale where they have a legend.
 * @param {Matrix} matrix @returns {{ name: string, cells: Int16Array, numeral?: legend.Shading["numeral"] }}
 */
function shaded({ values, top, low, signed: signs, quantity, absent }) {
  if (quantity && low !== undefined) return legend.between(values, low, top, quantity, absent);
  if (quantity) return legend.shading({ weights: Float32Array.from(values), scores: signs, quantity, top });
  return {
    name: signs ? state.signs() : state.inks(),
    cells: signs ? signed(values, top) : entries(values, top, "linear"),
  };
}

/** @param {Matrix} matrix */
function chosen(matrix) {
  const at = matrix.cell.peek();
  if (!at) return;
  state.say(matrix.told(at.q, at.k), true);
  if (matrix.pick) matrix.pick(at.q, at.k);
}

/** @param {KeyboardEvent} event @param {Matrix} matrix @param {number} rows @param {number} columns */
function pressed(event, matrix, rows, columns) {
  if (event.key === "Enter") chosen(matrix);
  const move = MOVES[event.key];
  if (!move) return;
  event.preventDefault();
  event.stopPropagation();
  const at = matrix.cell.peek() || matrix.spot?.();
  const inside = (/** @type {number} */ value, /** @type {number} */ count) => Math.max(0, Math.min(count - 1, value));
  const next = at && { q: inside(at.q + move[0], rows), k: inside(at.k + move[1], columns) };
  matrix.cell.value = next || { q: 0, k: 0 };
  state.say(matrix.told(matrix.cell.peek().q, matrix.cell.peek().k), true);
}

/**
 * Makes a canvas as large as it is seen; how wide a cell is then, in its pixels.
 * @param {HTMLCanvasElement} canvas @param {number} columns
 */
function fitted(canvas, columns) {
  const dots = window.devicePixelRatio || 1;
  const [width, height] = [Math.round(canvas.clientWidth * dots), Math.round(canvas.clientHeight * dots)];
  // to set a size takes away what is drawn
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  return width / columns;
}
