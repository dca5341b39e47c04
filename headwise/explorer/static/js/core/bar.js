// @ts-check
/** The marks of a colour bar: where they stand, from 0 to 1, and what they say. */

import { SCALES } from "./color.js";
import { bare, number } from "./text.js";

/** Without a power of ten, which stands in no other number of a map. @param {number} value */
const plain = (value) =>
  bare(value < 1e-3 ? value.toFixed(2 - Math.floor(Math.log10(value))).replace(/0+$/, "") : number(value));

const STEPS = [0.5, 0.25, 0.1];
/** Of a bar, between two marks at least; more where their letters are many on average. */
const APART = 0.11;
const apart = (/** @type {string} */ one, /** @type {string} */ two) =>
  Math.max(APART, 0.026 * ((one.length + two.length) / 2 + 1.2));

/**
 * Round numbers from zero to the largest, which are the first and the last.
 * @param {number} top @param {keyof typeof SCALES} scale @param {(value: number) => string} [write]
 * @returns {[number, string][]}
 */
export function ticks(top, scale, write = plain) {
  /** @type {[number, string][]} */
  const marks = [[1, write(top)]];
  let last = 1;
  for (let power = Math.floor(Math.log10(top)) + 1; power > -7; power -= 1) {
    for (const step of STEPS) {
      const value = Number((step * 10 ** power).toPrecision(2));
      const at = SCALES[scale](value / top);
      const text = write(value);
      if (value >= top || last - at < apart(text, marks[0][1]) || at < apart(text, "0")) continue;
      marks.unshift([at, text]);
      last = at;
    }
  }
  return [[0, "0"], ...marks];
}

/**
 * The same around zero, in both directions.
 * @param {number} top @param {keyof typeof SCALES} scale @returns {[number, string][]}
 */
export function signedTicks(top, scale) {
  const inner = { linear: 2, sqrt: 4, log: 100 }[scale];
  return [-1, -1 / inner, 0, 1 / inner, 1].map((share) => {
    const at = 0.5 + 0.5 * Math.sign(share) * SCALES[scale](Math.abs(share));
    const text = bare(String(Number((top * Math.abs(share)).toPrecision(2))));
    return [at, share ? `${share < 0 ? "−" : "+"}${text}` : "0"];
  });
}
