// @ts-check
/** The window on a large map: moved by the wheel, by two fingers, by a drag and by keys; kept from head to head. */

import { h } from "../dom.js";
import { extend } from "../keys.js";
import { effect } from "../store.js";
import { painted } from "../core/heatmap.js";
import { moved, pooled, whole, within, zoomed } from "../core/zoom.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/** @typedef {import("../core/zoom.js").Bounds} Bounds */
/** @typedef {import("../core/zoom.js").Window} Window */

/** Cells that are as large as this leave the wheel to the page. */
const READABLE = 16;
/** Pixels beyond which a press is a drag. */
const STILL = 4;

/** What keys act on: the map that is shown. @type {Bounds | null} */
let shown = null;

/** The window now. @param {Bounds} bounds @returns {Window} */
export function now(bounds) {
  const { x, y, times } = state.span.peek();
  return within({ x, y, side: bounds.least * times }, bounds);
}

/** @param {Window} next @param {Bounds} bounds */
export function put(next, bounds) {
  const before = now(bounds);
  if (before.x === next.x && before.y === next.y && before.side === next.side) return;
  state.span.value = { x: next.x, y: next.y, times: next.side / bounds.least };
}

/** Cells so many times as large, around the chosen one; 0 shows all. @param {number} factor */
function zoom(factor) {
  if (!shown) return;
  const [before, { q, k }] = [now(shown), state.cell()];
  const { x, y, side, tall = side } = before;
  const point = { x: (k + 0.5 - x) * side, y: (q + 0.5 - y) * tall };
  // else the middle
  if (!(point.x >= 0 && point.x < shown.width)) point.x = shown.width / 2;
  if (!(point.y >= 0 && point.y < shown.height)) point.y = shown.height / 2;
  put(factor ? zoomed(before, shown, factor, point) : whole(shown), shown);
}

/**
 * Lets a canvas be zoomed and dragged. What it returns says whether the latest press was a drag, and ends it.
 * @param {HTMLCanvasElement} canvas @param {Bounds} bounds
 */
export function mount(canvas, bounds) {
  shown = bounds;
  extend({ zoom });
  /** @type {Map<number, { x: number, y: number }>} */
  const fingers = new Map();
  let [begun, dragged] = [{ x: 0, y: 0 }, false];
  const point = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("wheel", (event) => wheeled(event, bounds, point(event)), {
    passive: false,
  });
  // two fingers are ours, not the page's
  canvas.addEventListener("touchmove", (event) => event.touches.length > 1 && event.preventDefault(), {
    passive: false,
  });
  canvas.addEventListener("pointerdown", (event) => {
    fingers.set(event.pointerId, point(event));
    if (fingers.size === 1) [begun, dragged] = [point(event), false];
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const at = point(event);
    dragged = dragged || Math.hypot(at.x - begun.x, at.y - begun.y) > STILL;
    if (!dragged) return;
    canvas.setPointerCapture(event.pointerId);
    followed(fingers, event.pointerId, at, bounds);
  });
  const lifted = (/** @type {PointerEvent} */ event) => void fingers.delete(event.pointerId);
  canvas.addEventListener("pointerup", lifted);
  canvas.addEventListener("pointercancel", lifted);
  const end = effect(() => {
    const { times } = state.span.value;
    // a finger moves the page as long as all of the map is seen
    canvas.style.touchAction = times > 1 ? "none" : "pan-x pan-y";
  });
  return {
    dragged: () => dragged,
    end: () => {
      end();
      if (shown === bounds) shown = null;
    },
  };
}

/** @param {WheelEvent} event @param {Bounds} bounds @param {{ x: number, y: number }} point */
function wheeled(event, bounds, point) {
  const before = now(bounds);
  const turned = event.deltaY * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1);
  const next = event.shiftKey
    ? moved(before, bounds, event.deltaX || turned, 0)
    : zoomed(before, bounds, Math.exp(-turned / (event.ctrlKey ? 100 : 400)), point);
  const still = next.side === before.side && next.x === before.x && next.y === before.y;
  if (!event.ctrlKey && (still || (bounds.least >= READABLE && before.side === bounds.least))) return;
  event.preventDefault();
  put(next, bounds);
}

/**
 * What one finger, or the pointer, moves, and what two do.
 * @param {Map<number, { x: number, y: number }>} fingers
 * @param {number} which
 * @param {{ x: number, y: number }} at
 * @param {Bounds} bounds
 */
function followed(fingers, which, at, bounds) {
  const before = /** @type {{ x: number, y: number }} */ (fingers.get(which));
  const other = [...fingers].find(([name]) => name !== which);
  fingers.set(which, at);
  if (!other) return put(moved(now(bounds), bounds, before.x - at.x, before.y - at.y), bounds);
  const far = (/** @type {{ x: number, y: number }} */ one) => Math.hypot(one.x - other[1].x, one.y - other[1].y);
  const middle = { x: (at.x + other[1].x) / 2, y: (at.y + other[1].y) / 2 };
  const next = zoomed(now(bounds), bounds, far(at) / Math.max(1, far(before)), middle);
  // the middle moves half as far as the finger
  return put(moved(next, bounds, (before.x - at.x) / 2, (before.y - at.y) / 2), bounds);
}

/** Smaller maps are seen well enough without a small one. */
export const FROM = 64;
const SIDE = 96;

/**
 * All of a large map, small, while a part is seen, with that part; a press or a drag moves it.
 * @param {Bounds} bounds
 * @returns {{ node: HTMLElement, put: (entries: Int16Array, ramp: string, down?: number, across?: number) => void,
 * end: () => void }}
 */
export function minimap(bounds) {
  const { rows, columns } = bounds;
  const unit = SIDE / Math.max(rows, columns);
  const [width, height] = [Math.max(8, Math.round(columns * unit)), Math.max(8, Math.round(rows * unit))];
  const canvas = h("canvas", { class: "minimap", width, height, "aria-hidden": "true", title: () => t("minimap") });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  let small = document.createElement("canvas");
  const paint = () => {
    const context = canvas.getContext("2d");
    const { x, y, side, tall = side } = now(bounds);
    context.clearRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, width, height);
    context.strokeStyle = getComputedStyle(canvas).getPropertyValue("--mark").trim();
    context.lineWidth = 2;
    const across = Math.min(width - 2, (bounds.width / side / columns) * width);
    const down = Math.min(height - 2, (bounds.height / tall / rows) * height);
    context.strokeRect((x / columns) * width + 1, (y / rows) * height + 1, across, down);
  };
  const move = (/** @type {PointerEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    const { side, tall = side } = now(bounds);
    const x = ((event.clientX - box.left) / box.width) * columns - bounds.width / side / 2;
    const y = ((event.clientY - box.top) / box.height) * rows - bounds.height / tall / 2;
    put(within({ x, y, side }, bounds), bounds);
  };
  canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
    canvas.setPointerCapture(event.pointerId);
    move(event);
  });
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => event.buttons && move(event));
  const end = effect(() => {
    canvas.hidden = state.span.value.times === 1;
    paint();
  });
  return {
    node: canvas,
    // a map of blocks has fewer
    put: (entries, ramp, down = rows, across = columns) => {
      const found = pooled(entries, down, across, SIDE);
      small = painted(found.entries, found.rows, found.columns, ramp);
      paint();
    },
    end,
  };
}
