// @ts-check
/** What the lines of a worked number are put together from. */

import { short } from "../core/digits.js";
import { cut } from "../core/text.js";
import { h } from "../dom.js";

/** @typedef {import("../core/steps.js").Step} Step */
/** @type {Record<string, string>} */
const SYMBOLS = {
  "query part": "q'",
  "key part": "k'",
  "plain query": "q₀",
  "plain key": "k₀",
  query: "q",
  key: "k",
  value: "v",
  input: "x",
  memory: "c",
};
/** @type {Record<string, string>} */
export const CLASSES = { q: "of-query", k: "of-key", v: "of-value" };

/**
 * `row` and `column` are those of the number, `k` is the key that is chosen; `choose` chooses another one.
 * @typedef {{ steps: import("../core/steps.js").Steps, step: Step, row: number, column: number, k: number,
 *   choose: (place: { k: number }) => void }} Target
 */

/** @param {Step} step */
export const symbolOf = (step) =>
  SYMBOLS[step.name] || step.symbol.toLowerCase().replace(/[^a-z'].*$/, "") || step.symbol;

/** @param {Target} number @param {number} axis @param {number} at */
export function label({ steps, step }, axis, at) {
  const labels = step.axes[axis] === "queries" ? steps.queries : step.axes[axis] === "keys" ? steps.keys : [];
  return at < labels.length ? cut(labels[at], 16) : String(at + 1);
}

/** A letter with what it is of below. @param {string} letter @param {...string} below */
export const letter = (letter, ...below) => [
  h("i", { class: CLASSES[letter[0]] || null }, letter),
  below.length ? h("sub", {}, below.join(", ")) : null,
];

/** @param {Target} number */
export const own = (number) =>
  letter(symbolOf(number.step), label(number, 0, number.row), label(number, 1, number.column));

/** @param {string} text */
export const plain = (text) => h("span", { class: "number" }, text);

/** @param {string} text */
export const result = (text) => h("strong", { class: "result" }, text);

/** @param {any} above @param {any} below */
export const fraction = (above, below) => h("span", { class: "fraction" }, h("span", {}, above), h("span", {}, below));

/** @param {number} value */
export const bracketed = (value) => (value < 0 ? `(${short(value)})` : short(value));

/** @param {Target} number */
export const valueOf = ({ step, row, column }) => step.values[row][column];

/** The steps that a number is made of. @param {Target} number */
export const sources = ({ steps, step }) => (step.working ? step.working.of : []).map((name) => steps.by[name]);
