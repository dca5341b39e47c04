// @ts-check
/** The window on a large map: moved by the wheel, by two fingers, by a drag and by keys; kept from head to head. */

import { extend } from "../keys.js";
import { effect } from "../store.js";
import { moved, whole, within, zoomed } from "../core/zoom.js";
import * as state from "../state.js";

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

/** Cells so many times as large, around the middle; 0 shows all. @param {number} factor */
function zoom(factor) {
  if (!shown) return;
  const middle = { x: shown.width / 2, y: shown.height / 2 };
  put(factor ? zoomed(now(shown), shown, factor, middle) : whole(shown), shown);
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
