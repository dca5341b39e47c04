// @ts-check
/** All of a large map, small, while it is not seen whole, with the window that is seen; a press or a drag moves it. */

import { h } from "../dom.js";
import { effect } from "../store.js";
import { painted } from "../core/heatmap.js";
import { pooled, within } from "../core/zoom.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import * as zooming from "./zooming.js";

/** Smaller maps are seen well enough. */
export const FROM = 64;
const SIDE = 96;

/**
 * @param {import("../core/zoom.js").Bounds} bounds
 * @returns {{ node: HTMLElement, put: (entries: Int16Array, ramp: string, down?: number, across?: number) => void,
 * end: () => void }}
 */
export function mount(bounds) {
  const { rows, columns } = bounds;
  const unit = SIDE / Math.max(rows, columns);
  const [width, height] = [Math.max(8, Math.round(columns * unit)), Math.max(8, Math.round(rows * unit))];
  const canvas = h("canvas", { class: "minimap", width, height, "aria-hidden": "true", title: () => t("minimap") });
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  let small = document.createElement("canvas");
  const paint = () => {
    const context = canvas.getContext("2d");
    const { x, y, side, tall = side } = zooming.now(bounds);
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
    const { side, tall = side } = zooming.now(bounds);
    const x = ((event.clientX - box.left) / box.width) * columns - bounds.width / side / 2;
    const y = ((event.clientY - box.top) / box.height) * rows - bounds.height / tall / 2;
    zooming.put(within({ x, y, side }, bounds), bounds);
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
