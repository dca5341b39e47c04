// @ts-check
/** Each way to look at a head as a picture that can be saved: the map, the links, the text, the table, all heads. */

import { SCALES, letters, ramp } from "../core/color.js";
import { NUMERALS } from "../core/fit.js";
import { largestOf, painted } from "../core/heatmap.js";
import { MOST_CELLS } from "../core/picture.js";
import { cut, decimals, shown } from "../core/text.js";
import { SIZE, wide } from "../core/canvas.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { groupTitle, headName, layerNumber, sidesOf } from "../titles.js";
import { PLACES, columnsOf, heading } from "./head_table.js";
import { chosen, locked } from "./heat.js";
import { lacking, shading } from "./legend.js";
import { headColours } from "./head_colours.js";
import { STEP, colouredOf, linesOf, strongestOf } from "./links.js";
import { isLarge, shownPart } from "./part.js";
import { compared, tinted } from "./text.js";

/** @typedef {import("../core/picture.js").Picture} Picture */
/** @typedef {Picture["marks"]} Marks */
/** @typedef {import("./heat.js").Head} Head */

/** Labels of more tokens would be too small to read. */
const LABELLED = 48;
const EDGE = 16;
const GAP = 6;
const BAR = 24;

function colours() {
  const style = getComputedStyle(document.documentElement);
  const one = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  return { page: one("--page"), ink: one("--ink"), soft: one("--soft"), line: one("--line") };
}

/** @param {number} entry @param {string} [name] of a ramp */
function colour(entry, name = state.inks()) {
  const table = ramp(name);
  return entry < 0 ? "#808080" : hexadecimal(table[4 * entry], table[4 * entry + 1], table[4 * entry + 2]);
}

/** @param {...number} parts */
const hexadecimal = (...parts) => `#${parts.map((part) => part.toString(16).padStart(2, "0")).join("")}`;

/**
 * Marks on the colour of the page, with a title above and lines of text below.
 * @param {string} title @param {number} width @param {number} height of the marks @param {Marks} marks @param
 * {string[]} below
 * @returns {Picture}
 */
function framed(title, width, height, marks, below) {
  const { page, ink, soft } = colours();
  const all = Math.ceil(Math.max(width, wide(title, 14), ...below.map((line) => wide(line)))) + 2 * EDGE;
  const tall = Math.ceil(height) + 2 * EDGE + 24 + 18 * below.length;
  const lines = below.map((text, at) => words(text, EDGE, tall - EDGE - 18 * (below.length - 1 - at), soft));
  /** @type {Marks} */
  const frame = [
    { kind: "rect", x: 0, y: 0, width: all, height: tall, fill: page },
    words(title, EDGE, EDGE + 14, ink, 14),
  ];
  return { title, width: all, height: tall, marks: [...frame, ...marks, ...lines] };
}

/**
 * @param {string} text @param {number} x @param {number} y @param {string} fill @param {number} [size]
 * @returns {Marks[number]}
 */
const words = (text, x, y, fill, size = SIZE) => ({ kind: "text", x, y, text, fill, anchor: "start", size });

/**
 * A matrix: each cell a rectangle, or all of them pixels where they are many.
 * @param {import("./legend.js").Shading} how
 * @param {number} rows @param {number} columns @param {number} x @param {number} y @param {number} step
 * @returns {Marks}
 */
function cells({ cells: entries, name, numeral }, rows, columns, x, y, step) {
  if (rows * columns > MOST_CELLS) {
    const canvas = painted(entries, rows, columns, name);
    return [{ kind: "image", x, y, width: columns * step, height: rows * step, canvas }];
  }
  return Array.from(entries).flatMap((entry, at) => {
    const [left, top] = [x + (at % columns) * step, y + Math.floor(at / columns) * step];
    const number = step >= NUMERALS ? numeral(at) : null;
    /** @type {Marks} */
    const marks = [{ kind: "rect", x: left, y: top, width: step, height: step, fill: colour(entry, name) }];
    if (number)
      marks.push({
        kind: "text",
        x: left + step / 2,
        y: top + step / 2 + 4,
        text: number.text,
        fill: number.colour,
        anchor: "middle",
      });
    return marks;
  });
}

/** @param {Head} head @returns {Picture} */
export function heat(head) {
  const { group, title } = head;
  const [rows, columns, how] = [group.queries.length, group.keys.length, shading(head)];
  const step = Math.max(4, Math.min(40, Math.floor(560 / Math.max(rows, columns, 1))));
  const { ink, soft } = colours();
  const named = (/** @type {string[]} */ labels) => (labels.length > LABELLED ? [] : labels.map((one) => cut(one, 12)));
  const [down, across] = [named(group.queries), named(group.keys)];
  const x = EDGE + BAR + Math.max(0, ...down.map((one) => wide(one))) + GAP;
  const y = EDGE + 24 + BAR + Math.max(0, ...across.map((one) => wide(one))) + GAP;
  const middle = step / 2 + 4;
  const marks = cells(how, rows, columns, x, y, step);
  const names = head.sides || sidesOf(group);
  marks.push({
    kind: "text",
    x: EDGE + SIZE,
    y: y + (rows * step) / 2,
    text: t(names.from),
    fill: soft,
    anchor: "middle",
    turned: true,
  });
  marks.push({
    kind: "text",
    x: x + (columns * step) / 2,
    y: EDGE + 24 + SIZE,
    text: t(names.to),
    fill: soft,
    anchor: "middle",
  });
  down.forEach((text, q) =>
    marks.push({ kind: "text", x: x - GAP, y: y + q * step + middle, text, fill: ink, anchor: "end" }),
  );
  across.forEach((text, k) => {
    marks.push({ kind: "text", x: x + k * step + middle, y: y - GAP, text, fill: ink, anchor: "start", turned: true });
  });
  const bottom = y + rows * step + 12;
  for (let at = 0; at < 64; at += 1) {
    marks.push({
      kind: "rect",
      x: x + at * 4,
      y: bottom,
      // over the edge of the next, so that no seam is left between dots
      width: at < 63 ? 5 : 4,
      height: 9,
      fill: colour(Math.round((at * 255) / 63), how.name),
    });
  }
  for (const [at, text] of how.ticks)
    marks.push({ kind: "text", x: x + 256 * at, y: bottom + 22, text, fill: ink, anchor: "middle" });
  const last = how.ticks.length ? wide(how.ticks[how.ticks.length - 1][1]) / 2 : 0;
  const width = x + Math.max(columns * step, 256 + last) - EDGE;
  return framed(title, width, bottom - EDGE + 14, marks, [`${how.title} (${t(state.scale.peek())})`]);
}

/** @param {import("./links.js").Heads} whole @returns {Picture} */
export function links(whole) {
  const head = isLarge(whole) ? shownPart(whole) : whole;
  const { group, title, part } = head;
  const [rows, columns] = [group.queries.length, group.keys.length];
  const { ink, soft } = colours();
  const [strokes, at] = [headColours(), part ? chosen(head) : locked(head)];
  const named = (/** @type {string[]} */ side, /** @type {number[] | null | undefined} */ places) =>
    side.map((one, at) => shown(one) + (places ? ` (${places[at] + 1})` : ""));
  const [from, to] = [named(group.queries, part?.q), named(group.keys, part?.k)];
  const left = EDGE + Math.max(wide(t("attends_from")), ...from.map((one) => wide(one))) + GAP;
  const right = left + 320;
  const y = EDGE + 56;
  const middle = (/** @type {number} */ place) => y + (place + 0.5) * STEP;
  const lit = (/** @type {{ q: number, k: number }} */ { q, k }) =>
    (at.q < 0 || q === at.q) && (at.q >= 0 || at.k < 0 || k === at.k);
  const heads = colouredOf(head);
  const { lines: every, all } = linesOf(head);
  const lines = strongestOf(every);
  const full = part ? Math.max(...lines.map(({ weight }) => weight)) || 1 : 1;
  /** @type {Marks} */
  const marks = lines.map((line) => {
    const share = Math.min(1, line.weight / full);
    const aside = 2 * (heads.findIndex(({ place }) => place === line.place) - (heads.length - 1) / 2);
    return {
      kind: "line",
      from: [left + GAP, middle(line.q) + aside],
      to: [right - GAP, middle(line.k) + aside],
      stroke: strokes[line.place],
      width: 0.5 + 4 * share,
      opacity: (lit(line) ? 1 : 0.22) * (0.35 + 0.65 * share),
    };
  });
  marks.push({ kind: "text", x: left, y: y - 8, text: t("attends_from"), fill: soft, anchor: "end" });
  marks.push(words(t("attends_to"), right, y - 8, soft));
  from.forEach((text, q) => marks.push({ kind: "text", x: left, y: middle(q) + 4, text, fill: ink, anchor: "end" }));
  to.forEach((text, k) => marks.push(words(text, right, middle(k) + 4, ink)));
  let x = EDGE;
  for (const { head: number, place } of head.coloured || []) {
    marks.push({ kind: "rect", x, y: EDGE + 24, width: 12, height: 12, fill: strokes[place] });
    marks.push(words(headName(number), x + 16, EDGE + 34, ink));
    x += 28 + wide(headName(number));
  }
  const width = Math.max(x, right + Math.max(wide(t("attends_to")), ...to.map((one) => wide(one))));
  const height = 32 + STEP * Math.max(rows, columns);
  const below = part ? [] : [t("links_cut", lines.length, all, state.mass.peek())];
  return framed(title, width - EDGE, height, marks, below);
}

/**
 * @param {Head & { marked?: Float32Array }} head as Text has it @param {{ q: number, k: number }} [of] what the tints
 * are of @returns {Picture}
 */
export function text(head, of = tinted(head)) {
  const { group, title, marked: weights = head.weights } = head;
  const { page, ink, line } = colours();
  const { q, k } = of;
  const turn = SCALES[/** @type {keyof typeof SCALES} */ (state.scale.peek())];
  const top = largestOf(compared(head, weights, of)) || 1;
  const labels = q < 0 && k >= 0 ? group.queries : group.keys;
  const weight = (/** @type {number} */ at) =>
    q >= 0 ? weights[q * group.keys.length + at] : k >= 0 ? weights[at * group.keys.length + k] : 0;
  /** @type {Marks} */
  const marks = [];
  let [x, y, widest] = [EDGE, EDGE + 36, 0];
  labels.forEach((token, at) => {
    const label = shown(token);
    const width = wide(label) + 12;
    if (x > EDGE && x + width > 720) [x, y] = [EDGE, y + STEP + 4];
    const entry = Math.round(255 * turn(Math.min(1, Math.max(0, weight(at) / top))));
    marks.push({ kind: "rect", x: x - 1, y: y - 1, width: width + 2, height: STEP + 2, fill: line });
    const forbidden = weight(at) === -Infinity;
    if (forbidden) marks.push(...hatched(x, y, width, page, line));
    else marks.push({ kind: "rect", x, y, width, height: STEP, fill: colour(entry) });
    marks.push(words(label, x + 6, y + 16, forbidden ? ink : letters(state.inks(), entry)));
    x += width + 6;
    widest = Math.max(widest, x);
  });
  const from =
    q >= 0
      ? `${t("attends_from")}: ${shown(group.queries[q])}`
      : `${t("attends_to")}${k >= 0 ? `: ${shown(group.keys[k])}` : ""}`;
  marks.push(words(from, EDGE, y + STEP + 22, ink));
  const below = labels.some((_, at) => weight(at) === -Infinity) ? [`▨ ${lacking()}`] : [];
  return framed(title, Math.max(widest - EDGE, wide(from)), y + STEP, marks, below);
}

/**
 * A token as high as a step that has no weight: lines 7 pixels apart across it.
 * @param {number} x @param {number} y @param {number} width @param {string} fill @param {string} stroke
 * @returns {Marks}
 */
function hatched(x, y, width, fill, stroke) {
  const lines = Array.from({ length: Math.ceil((width + STEP) / 7) }, (_, at) => {
    const [from, to] = [Math.max(0, STEP - 7 * at), Math.min(STEP, width + STEP - 7 * at)];
    const end = (/** @type {number} */ up) => [x + 7 * at - STEP + up, y + STEP - up];
    return { kind: "line", from: end(from), to: end(to), stroke, width: 2, opacity: 1 };
  });
  return /** @type {Marks} */ ([{ kind: "rect", x, y, width, height: STEP, fill }, ...lines]);
}

/** @param {state.Group} group @param {{ heads: Record<string, number>[][] }} summary @returns {Picture} */
export function table(group, summary) {
  const { ink, soft } = colours();
  const columns = columnsOf(summary);
  const titles = [t("layer"), t("head"), ...columns.map(heading)];
  const rows = summary.heads.flatMap((heads, layer) =>
    heads.map((found, head) => [
      layerNumber(group.layers[layer], layer),
      `${head + 1}`,
      ...columns.map((name) => decimals(found[name], PLACES)),
    ]),
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
  return framed(groupTitle(group), width, 44 + 20 * rows.length, marks, []);
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
    marks.push({
      kind: "text",
      x: EDGE + BAR - GAP,
      y: y + size / 2,
      text: layerNumber(group.layers[layer], layer),
      fill: soft,
      anchor: "end",
    });
    for (let head = 0; head < count; head += 1) {
      const at = (layer * count + head) * rows * columns;
      const canvas = painted(
        Int16Array.from(thumbs.data.subarray(at, at + rows * columns)),
        rows,
        columns,
        state.inks(),
      );
      marks.push({ kind: "image", x: EDGE + BAR + head * (size + GAP), y, width: size, height: size, canvas });
    }
  }
  return framed(groupTitle(group), BAR + count * (size + GAP), 36 + layers * (size + GAP), marks, []);
}
