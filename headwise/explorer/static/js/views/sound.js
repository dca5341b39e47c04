// @ts-check
/**
 * The spectrogram of a recording along the sides of a map whose places are times: what is seen of the map, and no
 * more.
 */

import { getNumbers } from "../api.js";
import { h } from "../dom.js";
import { painted } from "../core/heatmap.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/**
 * @typedef {{ numbers: import("../core/npy.js").Numbers, queries: boolean, keys: boolean }} Spectrogram bands by
 * frames, the highest first; which sides are times
 * @typedef {(window: import("../core/zoom.js").Window, bounds: import("../core/zoom.js").Bounds) => void} Draw what is
 * seen
 * @typedef {{ mount: (sides: { left: HTMLElement, top: HTMLElement }) => Draw }} Heard
 */

const DEEP = 48;

/**
 * The spectrogram of a trace whose group has times; null where there is none.
 * @param {state.Trace} trace
 * @param {state.Group} group
 * @returns {Promise<Heard | null>}
 */
export async function heard(trace, group) {
  const sides = trace.axes && trace.axes[group.name];
  const [queries, keys] = [sides?.queries.kind === "frames", sides?.keys.kind === "frames"];
  if (!queries && !keys) return null;
  const found = { numbers: await getNumbers(`/api/v1/traces/${trace.trace_id}/sound`), queries, keys };
  return { mount: (sides) => mount(sides, found) };
}

/** @param {{ left: HTMLElement, top: HTMLElement }} sides @param {Spectrogram} found @returns {Draw} */
function mount(sides, { numbers, queries, keys }) {
  const [bands, frames] = numbers.shape;
  const entries = Int16Array.from(numbers.data);
  const turned = entries.map((_, at) => entries[(at % bands) * frames + Math.floor(at / bands)]);
  const strip = () =>
    h("canvas", { class: "strip-of-sound", role: "img", "aria-label": t("spectrogram"), title: t("spectrogram") });
  const [top, left] = [keys ? strip() : null, queries ? strip() : null];
  if (top) sides.top.append(top);
  if (left) sides.left.append(left);
  if (left) left.style.width = `${DEEP}px`;
  return ({ x, y, side }, { rows, columns, width, height }) => {
    const name = state.dark.peek() ? "ink dark" : "ink light";
    const [flat, upright] = [painted(entries, bands, frames, name), painted(turned, frames, bands, name)];
    if (top) drawn(top, width, DEEP, flat, [(x / columns) * frames, 0, (width / side / columns) * frames, bands]);
    if (left) drawn(left, DEEP, height, upright, [0, (y / rows) * frames, bands, (height / side / rows) * frames]);
  };
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @param {HTMLCanvasElement} image
 * @param {number[]} part left, top, width and height
 */
function drawn(canvas, width, height, image, [left, top, across, down]) {
  const dots = globalThis.devicePixelRatio || 1;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  [canvas.width, canvas.height] = [Math.round(width * dots), Math.round(height * dots)];
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.drawImage(image, left, top, across, down, 0, 0, canvas.width, canvas.height);
}
