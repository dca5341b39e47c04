// @ts-check
/** What a position scheme does as a map, as a curve by distance, and as hands of a clock where it turns. */

import { drawn } from "../core/chart.js";
import { signed } from "../core/color.js";
import { painted, under } from "../core/heatmap.js";
import { number } from "../core/text.js";
import { h } from "../dom.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { t } from "../strings.js";

/** @typedef {import("../core/npy.js").Numbers} Numbers */
/** @typedef {{ does: string, values: Numbers, alike: Numbers }} Drawn */

const HANDS = 8;

/** @param {HTMLElement} place @param {Drawn} what @returns {() => void} */
export function mount(place, what) {
  const ends = [map(place, what), curve(place, what)];
  if (what.does === "turns") ends.push(hands(place, what));
  return () => ends.forEach((end) => end());
}

/** @param {HTMLElement} place @param {Drawn} what */
function map(place, { does, values }) {
  const [rows, columns] = values.shape;
  const top = Float32Array.from(values.data).reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const holder = h("div", { class: "plot" });
  const line = h("p", { class: "legend" });
  const range = `−${number(top)} … ${number(top)} · ${rows} × ${columns}`;
  line.textContent = range;
  place.append(h("p", { class: "side" }, t(does)), holder, line);
  return effect(() => {
    const canvas = painted(signed(values.data, top), rows, columns, state.dark.value ? "diverging dark" : "diverging");
    canvas.className = "cellwise";
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${t(does)}: ${range}`);
    canvas.addEventListener("pointermove", (event) => {
      const at = under(canvas, event, rows, columns);
      line.textContent = at ? `${at.q}, ${at.k}: ${number(values.data[at.q * columns + at.k])}` : range;
    });
    canvas.addEventListener("pointerleave", () => (line.textContent = range));
    holder.replaceChildren(canvas);
  });
}

/**
 * Similarity by distance: as it is told, or the mean of the pairs of each distance of a matrix.
 * @param {Numbers} alike @returns {{ x: number, y: number }[]}
 */
export function byDistance(alike) {
  if (alike.shape.length === 1) return Array.from(alike.data, (y, x) => ({ x, y }));
  const count = alike.shape[0];
  return Array.from({ length: 2 * count - 1 }, (_, at) => {
    const x = at - count + 1;
    let total = 0;
    for (let q = Math.max(0, -x); q < Math.min(count, count - x); q += 1) total += alike.data[q * count + q + x];
    return { x, y: total / (count - Math.abs(x)) };
  });
}

/** Whether all pairs of a distance are alike. @param {Numbers} alike @param {{ x: number, y: number }[]} means */
function exact(alike, means) {
  if (alike.shape.length === 1) return true;
  const count = alike.shape[0];
  const top = means.reduce((most, one) => Math.max(most, Math.abs(one.y)), 1e-9);
  return alike.data.every(
    (value, place) => Math.abs(value - means[(place % count) - Math.floor(place / count) + count - 1].y) < 1e-2 * top,
  );
}

/** @param {HTMLElement} place @param {Drawn} what */
function curve(place, { does, alike }) {
  const points = byDistance(alike);
  const ys = points.map((one) => one.y);
  const canvas = h("canvas", {
    class: "chart",
    role: "img",
    "aria-label": t(does === "scores" ? "alike_scores" : "alike_vectors"),
  });
  const note = exact(alike, points) ? null : h("p", { class: "legend" }, t("mean_spread"));
  place.append(
    h("div", {}, h("p", { class: "side" }, t(does === "scores" ? "alike_scores" : "alike_vectors")), canvas, note),
  );
  const [low, high] = [Math.min(0, ...ys), Math.max(0, ...ys)];
  const room = 0.04 * (high - low || 1);
  const x = { low: points[0].x, high: Math.max(points[0].x + 1, points[points.length - 1].x), name: t("by_distance") };
  const y = { low: low - room, high: high + room, name: "" };
  const paint = () => {
    void state.dark.value;
    const colour = getComputedStyle(canvas).getPropertyValue("--link").trim();
    drawn(canvas, { x, y, lines: [{ points, colour }] });
  };
  const end = effect(paint);
  const resized = new ResizeObserver(() => paint());
  resized.observe(canvas);
  return () => {
    resized.disconnect();
    end();
  };
}

/** @param {HTMLElement} place @param {Drawn} what */
function hands(place, { values }) {
  const canvas = h("canvas", { class: "dials", role: "img", "aria-label": t("dial") });
  place.append(h("p", { class: "side" }, t("dial")), canvas);
  const paint = () => {
    void state.dark.value;
    const row = Math.min(values.shape[0] - 1, Math.max(0, state.spot.value));
    dials(canvas, values, row);
  };
  const end = effect(paint);
  const resized = new ResizeObserver(() => paint());
  resized.observe(canvas);
  return () => {
    resized.disconnect();
    end();
  };
}

/**
 * A dial for some of the pairs, from the fastest to the slowest.
 * @param {HTMLCanvasElement} canvas
 * @param {Numbers} values
 * @param {number} row
 */
function dials(canvas, values, row) {
  const dots = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  // before it is seen it has no size
  if (!width || !height) return;
  canvas.width = Math.round(width * dots);
  canvas.height = Math.round(height * dots);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(dots, 0, 0, dots, 0, 0);
  const css = getComputedStyle(canvas);
  const [soft, faint, mark] = ["--soft", "--faint", "--mark"].map((name) => css.getPropertyValue(name).trim());
  const columns = values.shape[1];
  const pairs = columns / 2;
  const shown = Math.min(HANDS, pairs);
  const across = Math.min(shown, 4);
  const side = Math.min(width / across, height / Math.ceil(shown / across));
  context.font = `11px ${css.fontFamily}`;
  context.textAlign = "center";
  for (let number = 0; number < shown; number += 1) {
    const pair = shown > 1 ? Math.round((number * (pairs - 1)) / (shown - 1)) : 0;
    const [x, y] = [(number % across) * side + side / 2, Math.floor(number / across) * side + side / 2 - 7];
    const long = Math.max(4, side / 2 - 16);
    context.lineWidth = 1;
    context.strokeStyle = faint;
    context.beginPath();
    context.arc(x, y, long, 0, 2 * Math.PI);
    context.stroke();
    for (const [at, colour, wide] of /** @type {[number, string, number][]} */ ([
      [0, faint, 2],
      [row, mark, 3],
    ])) {
      const [cos, sin] = values.data.subarray(at * columns + 2 * pair, at * columns + 2 * pair + 2);
      context.strokeStyle = colour;
      context.lineWidth = wide;
      context.beginPath();
      context.moveTo(x, y);
      // angles grow against the clock, as on paper
      context.lineTo(x + long * cos, y - long * sin);
      context.stroke();
    }
    context.fillStyle = soft;
    context.fillText(String(pair), x, y + long + 13);
  }
}
