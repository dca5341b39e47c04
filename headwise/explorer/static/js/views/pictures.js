// @ts-check
/** Each way to look at a head as a picture that can be saved: the map, the links, the text, the table, all heads. */

import { SCALES, entries, letters, ramp } from "../core/color.js";
import { painted } from "../core/heatmap.js";
import { strongest } from "../core/links.js";
import { MOST_CELLS, SIZE, wide } from "../core/picture.js";
import { cut, decimals, shown } from "../core/text.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { PLACES, columnsOf, heading } from "./head_table.js";
import { LABELLED, largestOf, locked, range, sideOf } from "./heat.js";
import { MASS, STEP } from "./links.js";

/** @typedef {import("../core/picture.js").Picture} Picture */
/** @typedef {Picture["marks"]} Marks */
/** @typedef {import("./heat.js").Head} Head */

const EDGE = 16;
const GAP = 6;
const BAR = 24;

/** Colours of the page as it is now. */
function colours() {
  const style = getComputedStyle(document.documentElement);
  const one = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  return { page: one("--page"), ink: one("--ink"), soft: one("--soft"), link: one("--link"), line: one("--line") };
}

/** The name of the ramp of the page as it is now. */
const inks = () => (state.dark.peek() ? "ink dark" : "ink light");

/** @param {number} entry */
function colour(entry) {
  const table = ramp(inks());
  return entry < 0 ? "#808080" : hexadecimal(table[4 * entry], table[4 * entry + 1], table[4 * entry + 2]);
}

/** @param {...number} parts */
const hexadecimal = (...parts) => `#${parts.map((part) => part.toString(16).padStart(2, "0")).join("")}`;

/**
 * Marks on the colour of the page, with a title above and lines of text below.
 * @param {string} title @param {number} width @param {number} height of the marks @param {Marks} marks @param {string[]} below
 * @returns {Picture}
 */
function framed(title, width, height, marks, below) {
  const { page, ink, soft } = colours();
  const all = Math.ceil(Math.max(width, wide(title, 14), ...below.map((line) => wide(line)))) + 2 * EDGE;
  const tall = Math.ceil(height) + 2 * EDGE + 24 + 18 * below.length;
  const lines = below.map((text, at) => words(text, EDGE, tall - EDGE - 18 * (below.length - 1 - at), soft));
  /** @type {Marks} */
  const frame = [{ kind: "rect", x: 0, y: 0, width: all, height: tall, fill: page }, words(title, EDGE, EDGE + 14, ink, 14)];
  return { title, width: all, height: tall, marks: [...frame, ...marks, ...lines] };
}

/**
 * @param {string} text @param {number} x @param {number} y @param {string} fill @param {number} [size]
 * @returns {Marks[number]}
 */
const words = (text, x, y, fill, size = SIZE) => ({ kind: "text", x, y, text, fill, anchor: "start", size });

/** A matrix: each cell a rectangle, or all of them pixels where they are many. @param {Float32Array} weights
 * @param {number} rows @param {number} columns @param {number} x @param {number} y @param {number} step @returns {Marks} */
function cells(weights, rows, columns, x, y, step) {
  const found = entries(weights, largestOf(weights), /** @type {any} */ (state.scale.peek()));
  if (rows * columns > MOST_CELLS) {
    const canvas = painted(found, rows, columns, inks());
    return [{ kind: "image", x, y, width: columns * step, height: rows * step, canvas }];
  }
  return Array.from(found, (entry, at) => {
    const [q, k] = [Math.floor(at / columns), at % columns];
    return { kind: "rect", x: x + k * step, y: y + q * step, width: step, height: step, fill: colour(entry) };
  });
}

/** @param {Head} head @returns {Picture} */
export function heat({ weights, group, title }) {
  const [rows, columns] = [group.queries.length, group.keys.length];
  const step = sideOf(rows, columns);
  const { ink } = colours();
  const named = (/** @type {string[]} */ labels) => (labels.length > LABELLED ? [] : labels.map((one) => cut(one, 12)));
  const [down, across] = [named(group.queries), named(group.keys)];
  const x = EDGE + Math.max(0, ...down.map((one) => wide(one))) + GAP;
  const y = EDGE + 24 + Math.max(0, ...across.map((one) => wide(one))) + GAP;
  const middle = step / 2 + 4;
  const marks = cells(weights, rows, columns, x, y, step);
  down.forEach((text, q) => marks.push({ kind: "text", x: x - GAP, y: y + q * step + middle, text, fill: ink, anchor: "end" }));
  across.forEach((text, k) => {
    marks.push({ kind: "text", x: x + k * step + middle, y: y - GAP, text, fill: ink, anchor: "start", turned: true });
  });
  const bottom = y + rows * step + 12;
  for (let at = 0; at < 64; at += 1) {
    marks.push({ kind: "rect", x: x + at * 2, y: bottom, width: 2, height: 8, fill: colour(Math.round((at * 255) / 63)) });
  }
  marks.push(words(`${range(weights)}, ${t("scale")}: ${state.scale.peek()}`, x + 136, bottom + 8, ink));
  const width = x + Math.max(columns * step, 136 + 180) - EDGE;
  return framed(title, width, bottom - EDGE, marks, [t("from"), t("to")]);
}

/** @param {Head} head @returns {Picture} */
export function links(head) {
  const { weights, group, title } = head;
  const [rows, columns] = [group.queries.length, group.keys.length];
  const { ink, link } = colours();
  const left = EDGE + Math.max(0, ...group.queries.map((one) => wide(shown(one)))) + GAP;
  const right = left + 240;
  const y = EDGE + 36;
  const at = (/** @type {number} */ place) => y + (place + 0.5) * STEP;
  /** @type {Marks} */
  const marks = strongest(weights, rows, columns, MASS, locked(head)).links.map(({ q, k, weight }) => {
    const share = Math.min(1, weight);
    return { kind: "line", from: [left + GAP, at(q)], to: [right - GAP, at(k)], stroke: link, width: 0.5 + 4 * share, opacity: 0.15 + 0.85 * share };
  });
  group.queries.forEach((one, q) => marks.push({ kind: "text", x: left, y: at(q) + 4, text: shown(one), fill: ink, anchor: "end" }));
  group.keys.forEach((one, k) => marks.push(words(shown(one), right, at(k) + 4, ink)));
  const width = right + Math.max(0, ...group.keys.map((one) => wide(shown(one)))) - EDGE;
  return framed(title, width, 12 + STEP * Math.max(rows, columns), marks, []);
}

/** @param {Head} head @returns {Picture} */
export function text(head) {
  const { weights, group, title } = head;
  const { ink, line } = colours();
  const { q } = locked(head);
  const turn = SCALES[/** @type {keyof typeof SCALES} */ (state.scale.peek())];
  /** @type {Marks} */
  const marks = [];
  let [x, y, widest] = [EDGE, EDGE + 36, 0];
  group.keys.forEach((token, k) => {
    const label = shown(token);
    const width = wide(label) + 12;
    if (x > EDGE && x + width > 720) [x, y] = [EDGE, y + STEP + 4];
    const entry = q < 0 ? 0 : Math.round(255 * turn(Math.min(1, Math.max(0, weights[q * group.keys.length + k]))));
    marks.push({ kind: "rect", x: x - 1, y: y - 1, width: width + 2, height: STEP + 2, fill: line });
    marks.push({ kind: "rect", x, y, width, height: STEP, fill: colour(entry) });
    marks.push(words(label, x + 6, y + 16, letters(inks(), entry)));
    x += width + 6;
    widest = Math.max(widest, x);
  });
  const from = q < 0 ? t("to") : `${t("from")}: ${shown(group.queries[q])}`;
  marks.push(words(from, EDGE, y + STEP + 22, ink));
  return framed(title, Math.max(widest - EDGE, wide(from)), y + STEP, marks, []);
}

/** @param {state.Group} group @param {{ heads: Record<string, number>[][] }} summary @returns {Picture} */
export function table(group, summary) {
  const { ink, soft } = colours();
  const columns = columnsOf(summary);
  const titles = [t("layer"), t("head"), ...columns.map(heading)];
  const rows = summary.heads.flatMap((heads, layer) =>
    heads.map((found, head) => [`${layer}`, `${head}`, ...columns.map((name) => decimals(found[name], PLACES))]),
  );
  const widths = titles.map((title, at) => Math.max(wide(title), ...rows.map((row) => wide(row[at]))) + 16);
  /** @type {Marks} */
  const marks = [];
  const put = (/** @type {string[]} */ row, /** @type {number} */ y, /** @type {string} */ fill) => {
    let x = EDGE;
    row.forEach((one, at) => {
      x += widths[at];
      marks.push({ kind: "text", x, y, text: one, fill, anchor: "end" });
    });
  };
  put(titles, EDGE + 44, soft);
  rows.forEach((row, at) => put(row, EDGE + 44 + 20 * (at + 1), ink));
  const width = widths.reduce((all, one) => all + one, 0);
  return framed(group.name, width, 44 + 20 * rows.length, marks, []);
}

/** @param {state.Group} group @param {import("../core/npy.js").Numbers} thumbs @returns {Picture} */
export function heads(group, thumbs) {
  const [layers, count, rows, columns] = thumbs.shape;
  const { soft } = colours();
  const size = 64;
  /** @type {Marks} */
  const marks = [];
  for (let layer = 0; layer < layers; layer += 1) {
    const y = EDGE + 36 + layer * (size + GAP);
    marks.push({ kind: "text", x: EDGE + BAR - GAP, y: y + size / 2, text: `${layer}`, fill: soft, anchor: "end" });
    for (let head = 0; head < count; head += 1) {
      const at = (layer * count + head) * rows * columns;
      const canvas = painted(Int16Array.from(thumbs.data.subarray(at, at + rows * columns)), rows, columns, inks());
      marks.push({ kind: "image", x: EDGE + BAR + head * (size + GAP), y, width: size, height: size, canvas });
    }
  }
  return framed(group.name, BAR + count * (size + GAP), 36 + layers * (size + GAP), marks, []);
}
