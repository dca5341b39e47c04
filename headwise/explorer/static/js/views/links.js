// @ts-check
/**
 * Queries on the left, keys on the right, a line for each strong weight; those of the looked-at token while there is
 * one.
 */

import { h } from "../dom.js";
import { effect, signal } from "../store.js";
import { MOST, strongest } from "../core/links.js";
import * as ends from "./ends.js";
import { locked } from "./heat.js";
import * as state from "../state.js";

export const STEP = 24;
export const MASS = 0.9;

/** @param {HTMLElement} place @param {import("./heat.js").Head} head @returns {() => void} */
export function mount(place, head) {
  const { weights, group } = head;
  const [rows, columns] = [group.queries.length, group.keys.length];
  const canvas = h("canvas", { class: "lines", "aria-hidden": "true" });
  const height = STEP * Math.max(rows, columns);
  const { queries, keys } = ends.mount(head);
  const note = h("p", { class: "legend" });
  place.append(
    h("div", { class: "linked" }, h("div", { class: "ends" }, queries), canvas, h("div", { class: "ends" }, keys)),
    note,
  );
  canvas.style.height = `${height}px`;
  // asked for only where it changes: under the pointer, each question would lay out the page anew
  const width = signal(canvas.clientWidth);
  const resized = new ResizeObserver(() => (width.value = canvas.clientWidth));
  resized.observe(canvas);
  const end = effect(() => {
    // the colour of lines is that of the page
    void state.dark.value;
    const { links, cut } = strongest(weights, rows, columns, MASS, state.hovered.value || locked(head));
    draw(canvas, links, width.value, height);
    note.textContent = cut ? `${MOST} …` : "";
  });
  return () => {
    resized.disconnect();
    end();
  };
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {{ q: number, k: number, weight: number }[]} links
 * @param {number} width
 * @param {number} height
 */
function draw(canvas, links, width, height) {
  const dots = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * dots);
  canvas.height = Math.round(height * dots);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.strokeStyle = getComputedStyle(canvas).getPropertyValue("--link").trim();
  context.lineCap = "round";
  for (const { q, k, weight } of links) {
    context.globalAlpha = 0.15 + 0.85 * Math.min(1, weight);
    context.lineWidth = dots * (0.5 + 4 * Math.min(1, weight));
    context.beginPath();
    context.moveTo(0, (q + 0.5) * STEP * dots);
    context.lineTo(canvas.width, (k + 0.5) * STEP * dots);
    context.stroke();
  }
}
