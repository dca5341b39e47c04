// @ts-check
/** What the colours of a map mean: a bar with numbers, the next scale, what is hatched. */

import { fill, h } from "../dom.js";
import { signedTicks, ticks } from "../core/bar.js";
import { entries, letters, signed } from "../core/color.js";
import { largestOf, painted } from "../core/heatmap.js";
import { scored, share } from "../core/text.js";
import * as state from "../state.js";
import { t } from "../strings.js";

const EVERY = Int16Array.from({ length: 256 }, (_, entry) => entry);

/**
 * Words for a pair without a weight, and the cells, of those, whose weights are hidden.
 * @typedef {{ pair: string, blank: number[], hidden: string }} Absent
 */

/**
 * How the numbers of a map become colours: weights from zero up, scores on both sides of zero.
 * @typedef {{ name: string, cells: Int16Array, ticks: [number, string][], title: string, numeral: (at: number) => {
 * text: string, colour: string } | null, even?: boolean, absent?: Absent }} Shading `even`: its scale is not to be
 * chosen
 */

/**
 * @param {{ weights: Float32Array, scores?: boolean, quantity?: string, top?: number, absent?: Absent, write?: (weight:
 * number) => string }} head `top`: the end of the scale, if not the largest number; `write`: weights along it
 * @returns {Shading}
 */
export function shading({ weights, scores, quantity, top: given, absent, write }) {
  const scale = /** @type {keyof typeof import("../core/color.js").SCALES} */ (state.scale.value);
  const top = given ?? largestOf(scores ? weights.map(Math.abs) : weights);
  const name = `${scores ? "diverging" : "ink"}${state.dark.value ? " dark" : scores ? "" : " light"}`;
  const cells = (scores ? signed : entries)(weights, top, scale);
  absent?.blank.forEach((at) => (cells[at] = 0));
  const marks = top > 0 ? (scores ? signedTicks(top, scale) : ticks(top, scale, write)) : [];
  const title = top > 0 || (scores && quantity) ? quantity || t(scores ? "score_bar" : "weight_bar") : t("all_zero");
  // halves that are alike may stand for numbers that are not
  const text = !scores ? share : quantity ? (/** @type {number} */ value) => share(value || 1e-9) : scored;
  const numeral = (/** @type {number} */ at) =>
    weights[at] === -Infinity ? null : { text: text(weights[at]), colour: letters(name, cells[at]) };
  return { name, cells, ticks: /** @type {[number, string][]} */ (marks), title, numeral, absent };
}

/**
 * Colours in even steps from one number to another, for numbers that all lie far from 0.
 * @param {ArrayLike<number>} values @param {number} low @param {number} top @param {string} title
 * @param {string} [pair] words for minus infinity @returns {Shading}
 */
export function between(values, low, top, title, pair) {
  const name = state.inks();
  const cells = entries(
    Float32Array.from(values, (value) => value - low),
    top - low,
    "linear",
  );
  const ends = /** @type {[number, string][]} */ ([0, 0.5, 1].map((at) => [at, share(low + at * (top - low))]));
  // a head with itself lies beyond the pairs that colours tell apart
  if (Array.from(values).some((value) => value > top)) ends[2][1] = `≥${ends[2][1]}`;
  const numeral = (/** @type {number} */ at) =>
    cells[at] < 0 ? null : { text: share(values[at]), colour: letters(name, cells[at]) };
  return {
    name,
    cells,
    ticks: ends,
    title,
    numeral,
    even: true,
    absent: pair ? { pair, blank: [], hidden: "" } : undefined,
  };
}

/** A bar of a ramp, or of 256 colours, with marks below it. @param {...any} heading what stands above it */
export function bar(...heading) {
  const colours = h("canvas", { class: "ramp", width: 256, height: 1, "aria-hidden": "true" });
  const marks = h("div", { class: "ticks" });
  const node = h("div", { class: "colours" }, h("div", { class: "heading" }, heading), colours, marks);
  const draw = (/** @type {string | HTMLCanvasElement} */ of, /** @type {[number, string][]} */ ticks) => {
    const image = typeof of === "string" ? painted(EVERY, 1, 256, of) : of;
    colours.height = image.height;
    colours.getContext("2d").drawImage(image, 0, 0);
    fill(
      marks,
      ticks.map(([at, text]) => {
        const mark = h("span", {}, text);
        mark.style.left = `${100 * at}%`;
        return mark;
      }),
    );
  };
  return { node, draw };
}

/**
 * @param {HTMLElement} place
 * @param {HTMLElement | null} [more] what stands beside the bar
 * @param {() => string} [lines] what lines of the map mean
 * @returns {(how: Shading, weights: Float32Array, numerals: boolean) => void}
 */
export function mount(place, more = null, lines = () => "") {
  const [title, notes] = [h("span"), h("span")];
  const scale = h(
    "button",
    { class: "small", onclick: () => state.scaled() },
    () => `${t("scale")}: ${t(state.scale.value)}`,
  );
  const strip = bar(title, scale);
  place.append(h("div", { class: "legend" }, strip.node, notes, more));
  return (how, weights, numerals) => {
    strip.draw(how.name, how.ticks);
    title.textContent = how.title;
    const none = !how.ticks.length;
    strip.node.querySelector("canvas").hidden = none;
    scale.hidden = none || Boolean(how.even);
    const dots = numerals && weights.some((_, at) => how.numeral(at)?.text === "·");
    notes.textContent = [
      dots ? t("dot_note") : "",
      weights.includes(-Infinity) ? `▨ ${lacking(how.absent)}` : "",
      how.absent?.blank.length ? `□ ${how.absent.hidden}` : "",
      lines(),
    ]
      .filter(Boolean)
      .join(" · ");
  };
}

/** @param {Absent} [absent] @param {number} [at] its cell */
export function lacking(absent, at = -1) {
  if (absent) return absent.blank.includes(at) ? absent.hidden : absent.pair;
  return t(state.best() === "graph" ? "strangers" : "forbidden");
}
