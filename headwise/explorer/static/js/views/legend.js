// @ts-check
/** What the colours of a map mean: a bar with numbers, the next scale, what is hatched. */

import { fill, h } from "../dom.js";
import { signedTicks, ticks } from "../core/bar.js";
import { entries, letters, signed } from "../core/color.js";
import { painted } from "../core/heatmap.js";
import { scored, share } from "../core/text.js";
import * as state from "../state.js";
import { t } from "../strings.js";

const EVERY = Int16Array.from({ length: 256 }, (_, entry) => entry);

/**
 * How the numbers of a map become colours: weights from zero up, scores on both sides of zero.
 * @typedef {{ name: string, cells: Int16Array, ticks: [number, string][], title: string, numeral: (at: number) => {
 * text: string, colour: string } | null }} Shading
 */

/** @param {{ weights: Float32Array, scores?: boolean }} head @returns {Shading} */
export function shading({ weights, scores }) {
  const scale = /** @type {keyof typeof import("../core/color.js").SCALES} */ (state.scale.value);
  const top = largestOf(scores ? weights.map(Math.abs) : weights);
  const name = `${scores ? "diverging" : "ink"}${state.dark.value ? " dark" : scores ? "" : " light"}`;
  const cells = (scores ? signed : entries)(weights, top, scale);
  const marks = top > 0 ? (scores ? signedTicks : ticks)(top, scale) : [];
  const title = top > 0 ? t(scores ? "score_bar" : "weight_bar") : t("all_zero");
  const text = scores ? scored : share;
  const numeral = (/** @type {number} */ at) =>
    cells[at] < 0 ? null : { text: text(weights[at]), colour: letters(name, cells[at]) };
  return { name, cells, ticks: /** @type {[number, string][]} */ (marks), title, numeral };
}

/**
 * @param {HTMLElement} place
 * @param {HTMLElement | null} [more] what stands beside the bar
 * @returns {(how: Shading, weights: Float32Array, numerals: boolean) => void}
 */
export function mount(place, more = null) {
  const [title, notes] = [h("span"), h("span")];
  const [colours, marks] = [
    h("canvas", { class: "ramp", width: 256, height: 1, "aria-hidden": "true" }),
    h("div", { class: "ticks" }),
  ];
  const scale = h(
    "button",
    { class: "small", onclick: () => state.scaled() },
    () => `${t("scale")}: ${t(state.scale.value)}`,
  );
  place.append(
    h(
      "div",
      { class: "legend" },
      h("div", { class: "colours" }, h("div", { class: "heading" }, title, scale), colours, marks),
      notes,
      more,
    ),
  );
  return (how, weights, numerals) => {
    colours.getContext("2d").drawImage(painted(EVERY, 1, 256, how.name), 0, 0);
    title.textContent = how.title;
    fill(
      marks,
      how.ticks.map(([at, text]) => {
        const mark = h("span", {}, text);
        mark.style.left = `${100 * at}%`;
        return mark;
      }),
    );
    const small = numerals && weights.some((weight) => Math.abs(weight) > 0 && Math.abs(weight) < 0.005);
    notes.textContent = [
      small && how.name.startsWith("ink") ? t("dot_note") : "",
      weights.includes(-Infinity) ? `▨ ${t("forbidden")}` : "",
    ]
      .filter(Boolean)
      .join(" · ");
  };
}

/** The largest of the finite numbers, 0 at least. @param {Float32Array} values */
function largestOf(values) {
  let largest = 0;
  for (const value of values) if (value > largest && value < Infinity) largest = value;
  return largest;
}
