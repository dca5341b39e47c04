// @ts-check
/** What a position scheme does as a map, as a curve by distance, and as hands of a clock where it turns. */

import { coloursOf, segment, sharp } from "../core/canvas.js";
import { signedTicks } from "../core/bar.js";
import { drawn } from "../core/chart.js";
import { signed } from "../core/color.js";
import { fixed } from "../core/digits.js";
import { painted, under } from "../core/heatmap.js";
import { number } from "../core/text.js";
import { h, repainted } from "../dom.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { sentences, t } from "../strings.js";
import { bar } from "./legend.js";

/** @typedef {import("../core/npy.js").Numbers} Numbers */
/**
 * `grid`: the width of a grid of patches, 0 for none.
 * @typedef {{ does: string, values: Numbers, alike: Numbers, grid?: number }} Drawn
 */

const HANDS = 8;
/** A number with a minus sign. @param {number} value */
const figure = (value) => number(value).replace(/^-/, "−");

/** Pixels that the two lines below a hand need. */
const BELOW = 34;

/** @param {HTMLElement} place @param {Drawn} what */
export function mount(place, what) {
  place.append(h("p", { class: "say" }, saying(what)));
  const ends = [map(place, what), curve(place, what)];
  if (what.does === "turns") ends.push(hands(place, what));
  return () => ends.forEach((end) => end());
}

/**
 * A map with its axes, its colour bar, and what the cell under the pointer says.
 * @param {HTMLElement} place @param {Drawn} what
 */
function map(place, { does, values }) {
  const [rows, columns] = values.shape;
  const top = Float32Array.from(values.data).reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const line = h("p", { class: "legend", "aria-live": "polite" });
  const resting = reading(does, values, Math.min(rows - 1, state.spot.peek()), Math.min(columns - 1, 6));
  const holder = h("div", { class: "plane" });
  const strip = bar(t(`${does}_bar`));
  const part = does === "scores" ? "scores" : "vectors";
  place.append(
    h("p", { class: "side" }, t(does)),
    h("div", { class: "mapped" }, holder, h("div", { class: "beside-map" }, strip.node, line)),
  );
  line.textContent = resting;
  return effect(() => {
    const name = state.dark.value ? "diverging dark" : "diverging";
    const canvas = painted(signed(values.data, top), rows, columns, name);
    canvas.className = "cellwise";
    canvas.style.aspectRatio = String(Math.min(1.6, Math.max(1, columns / rows)));
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${t(does)}: ${rows} × ${columns}`);
    const point = (/** @type {PointerEvent} */ event) => {
      const at = under(canvas, event, rows, columns);
      line.textContent = at ? reading(does, values, at.q, at.k) : resting;
    };
    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("pointerdown", point);
    // a finger leaves when it is lifted: what it chose stays
    canvas.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") line.textContent = resting;
    });
    strip.draw(name, top > 0 ? signedTicks(top, "linear") : []);
    holder.replaceChildren(
      h("span", { class: "up" }, t(`row_${part}`)),
      marks("down", rows),
      canvas,
      marks("across", columns),
      h("span", { class: "under" }, t(`column_${does}`)),
    );
  });
}

/** Numbers along one side of a map, four at most. @param {"down" | "across"} way @param {number} count */
function marks(way, count) {
  const step = 2 ** Math.ceil(Math.log2(Math.max(1, count / 4)));
  const seen = Array.from({ length: Math.ceil(count / step) }, (_, at) => at * step);
  return h(
    "div",
    { class: `marks ${way}` },
    seen.map((at) => {
      const mark = h("span", {}, String(at));
      mark.style[way === "down" ? "top" : "left"] = `${(100 * (at + 0.5)) / count}%`;
      return mark;
    }),
  );
}

/**
 * What a cell says: its number or, of a pair of columns that turns, its angle.
 * @param {string} does @param {Numbers} values @param {number} row @param {number} column
 */
function reading(does, values, row, column) {
  const columns = values.shape[1];
  const value = figure(values.data[row * columns + column]);
  if (does === "scores") return t("cell_score", row, column, value);
  const pair = Math.floor(column / 2);
  const period = periodOf(values, pair, does === "vectors");
  const waves = period ? number(period) : "";
  if (does === "vectors") {
    const plain = t("cell_number", row, column, value);
    return waves ? t("cell_wave", plain, waves) : plain;
  }
  const angle = number((angleOf(values, row, pair, false) + 2 * Math.PI) % (2 * Math.PI));
  return waves ? t("cell_period", row, pair, angle, waves) : t("cell_angle", row, pair, angle);
}

/** @param {Numbers} values @param {number} row @param {number} pair @param {boolean} sineFirst */
function angleOf(values, row, pair, sineFirst) {
  const [one, other] = values.data.subarray(row * values.shape[1] + 2 * pair);
  return sineFirst ? Math.atan2(one, other) : Math.atan2(other, one);
}

/**
 * Positions until a pair of columns has turned once; 0 where it does not turn evenly from position 0.
 * @param {Numbers} values @param {number} pair @param {boolean} sineFirst sine before cosine, as in sinusoidal vectors
 */
function periodOf(values, pair, sineFirst) {
  const [rows, columns] = values.shape;
  if (rows < 3 || 2 * pair + 1 >= columns) return 0;
  const speed = angleOf(values, 1, pair, sineFirst);
  const size = Math.hypot(...values.data.subarray(2 * pair, 2 * pair + 2));
  for (let row = 0; row < rows; row += 1) {
    const [one, other] = values.data.subarray(row * columns + 2 * pair);
    const [cos, sin] = sineFirst ? [other, one] : [one, other];
    if (Math.hypot(cos - size * Math.cos(row * speed), sin - size * Math.sin(row * speed)) > 0.02 * size) return 0;
  }
  return size > 0 && speed > 0 ? (2 * Math.PI) / speed : 0;
}

/**
 * The period of a pair in words; in a grid of patches, of a pair that turns with the row or with the column.
 * @param {Numbers} values @param {number} pair @param {number} grid
 */
function turning(values, pair, grid) {
  if (!grid || values.shape[0] <= grid) {
    const period = periodOf(values, pair, false);
    return period && t("period_n", number(period));
  }
  // within the first row only what turns with the column does
  const across = angleOf(values, 1, pair, false);
  const speed = across || angleOf(values, grid, pair, false);
  return t(across ? "period_columns" : "period_rows", number((2 * Math.PI) / speed));
}

/** The sentence of what is to be seen, from the numbers. @param {Drawn} what */
function saying({ does, alike }) {
  const means = byDistance(alike);
  const rest = exact(alike, means);
  const last = means[means.length - 1].x;
  if (last < 2) return "";
  const half = Math.ceil(last / 2);
  const of = (/** @type {(x: number) => boolean} */ which) => {
    const chosen = means.filter(({ x }) => which(Math.abs(x)));
    return chosen.reduce((sum, { y }) => sum + y, 0) / chosen.length;
  };
  const near = of((x) => x === 1);
  const far = does === "scores" ? of((x) => x === last) : of((x) => x >= half);
  const even =
    alike.shape.length > 1 && means.every(({ y }, at) => Math.abs(y - means[means.length - 1 - at].y) < 1e-3);
  const whole = t(!rest ? "say_more" : alike.shape.length === 1 || even ? "say_distance" : "say_direction");
  if (does === "scores") {
    const outwards = means.every(({ x, y }, at) => !at || (x > 0 ? y <= means[at - 1].y : y >= means[at - 1].y));
    return sentences(t(outwards ? "say_fall" : "say_added", figure(near), figure(far), last), whole);
  }
  const round = (/** @type {number} */ value) => fixed(value, 2);
  return sentences(t(near - far > 0.05 ? "say_less" : "say_even", round(near), round(far), half), whole);
}

/**
 * Similarity by distance: as it is told, or the mean of the pairs of each distance of a matrix.
 * @param {Numbers} alike
 */
function byDistance(alike) {
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
  const name = t(does !== "scores" ? "alike_vectors" : points[0].x < 0 ? "alike_scores" : "alike_even");
  const canvas = h("canvas", { class: "chart", role: "img", "aria-label": name });
  const note = exact(alike, points) ? null : h("p", { class: "legend" }, t("mean_spread"));
  place.append(
    h("p", { class: "side" }, name),
    h("div", { class: "charted" }, h("span", { class: "up" }, t(does === "scores" ? "scores_bar" : "cosine")), canvas),
    ...(note ? [note] : []),
  );
  const [low, high] = [Math.min(0, ...ys), Math.max(0, ...ys)];
  const room = 0.04 * (high - low || 1);
  const x = { low: points[0].x, high: Math.max(points[0].x + 1, points[points.length - 1].x), name: t("by_distance") };
  const y = { low: low - room, high: high + room, name: "" };
  const paint = () => {
    void state.dark.value;
    const colour = coloursOf(canvas, "--link")[0];
    drawn(canvas, { x, y, lines: [{ points, colour }] });
  };
  return repainted(canvas, paint);
}

/** @param {HTMLElement} place @param {Drawn} what */
function hands(place, { values, grid = 0 }) {
  const title = h("p", { class: "side" });
  const canvas = h("canvas", { class: "dials", role: "img" });
  place.append(title, canvas);
  const paint = () => {
    void state.dark.value;
    const row = Math.min(values.shape[0] - 1, Math.max(0, state.spot.value));
    title.textContent = t("dial", grid ? t("in_grid", row, Math.floor(row / grid), row % grid) : row);
    canvas.setAttribute("aria-label", title.textContent);
    dials(canvas, values, row, grid);
  };
  return repainted(canvas, paint);
}

/**
 * A dial for some of the pairs, from the fastest to the slowest.
 * @param {HTMLCanvasElement} canvas @param {Numbers} values @param {number} row @param {number} grid
 */
function dials(canvas, values, row, grid) {
  const width = canvas.clientWidth;
  // before it is seen it has no size
  if (!width) return;
  const columns = values.shape[1];
  const pairs = columns / 2;
  const shown = Math.min(HANDS, pairs);
  const across = Math.min(shown, width < 500 ? 4 : HANDS);
  const side = Math.min(width / across, 110);
  const high = side + BELOW;
  const height = high * Math.ceil(shown / across);
  canvas.style.height = `${height}px`;
  const context = sharp(canvas, width, height);
  const css = getComputedStyle(canvas);
  const [soft, faint, mark] = coloursOf(canvas, "--soft", "--faint", "--mark");
  context.font = `11px ${css.fontFamily}`;
  context.textAlign = "center";
  for (let hand = 0; hand < shown; hand += 1) {
    const pair = shown > 1 ? Math.round((hand * (pairs - 1)) / (shown - 1)) : 0;
    const [x, y] = [((hand % across) + 0.5) * side, Math.floor(hand / across) * high + side / 2];
    const long = Math.max(4, side / 2 - 5);
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
      // angles grow against the clock, as on paper
      segment(context, [x, y], [x + long * cos, y - long * sin]);
    }
    context.fillStyle = soft;
    context.fillText(t("pair_n", pair), x, y + long + 14);
    const period = turning(values, pair, grid);
    if (period) context.fillText(period, x, y + long + 28);
  }
}
