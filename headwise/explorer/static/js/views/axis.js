// @ts-check
/** The labels along one side of a map: those of the rows or columns that are seen, as many as can be read. */

import { fill, h } from "../dom.js";
import { wide } from "../core/wide.js";
import { cut, shown } from "../core/text.js";

const LETTERS = 12;
/** Pixels that a line of text needs. */
const LINE = 13;

/** Labels of which the chosen one may have its position; every how many are shown where positions stand for tokens. */
const [MANY, SPARSE] = [128, 4];

/** @param {string} label @param {number} at */
const placed = (label, at) => `${cut(label, LETTERS)} (${(at + 1).toLocaleString("en")})`;

/** @param {string[]} labels */
const repeats = (labels) => new Set(labels).size < labels.length;

/** Pixels of the longest of some labels. @param {string[]} labels */
export function longest(labels) {
  const whole = labels.length > MANY && repeats(labels);
  return Math.max(0, ...labels.map((label, at) => wide(whole ? placed(label, at) : cut(label, LETTERS), 12.5)));
}

/**
 * @param {HTMLElement} place @param {string[]} labels @param {"rows" | "level" | "slanted" | "upright"} turn how they
 * lie
 * @param {number} size pixels that they take
 * @param {boolean} [counted] whether positions, counted from 1, stand in place of most labels where many are left out
 * @returns {(window: import("../core/zoom.js").Window, length: number, chosen: number) => void} draws them along so
 * many
 *   pixels; that of the chosen row or column always, and marked
 */
export function mount(place, labels, turn, size, counted = repeats(labels)) {
  const down = turn === "rows";
  place.className = down ? "rows axis" : `columns axis ${turn}`;
  place.style[down ? "width" : "height"] = `${size}px`;
  // nodes that are numbers have these names everywhere
  const numbers = labels.every((label, at) => label === String(at));
  return ({ x, y, side: across, tall = across }, length, chosen) => {
    const [from, side] = down ? [y, tall] : [x, across];
    const needed = Math.max(1, Math.ceil(LINE / side));
    const positions = needed >= SPARSE && counted && !numbers;
    const each = needed > 1 && (numbers || positions) ? round(needed) : needed;
    const first = positions ? each - 1 : 0;
    const room = Math.max(LINE, side * each);
    const last = Math.min(labels.length, Math.ceil(from + length / side));
    // where labels are left out, each stands at the middle of its own row or column
    const spot = (/** @type {number} */ at) => {
      const middle = (at - from) * side - (each > 1 ? (LINE - side) / 2 : 0);
      return each > 1 ? Math.max(0, Math.min(length - LINE, middle)) : middle;
    };
    const shows = chosen >= from && chosen < last;
    const seen = [];
    for (let at = first + Math.ceil((Math.floor(from) - first) / each) * each; at < last; at += each) {
      const free = (/** @type {number} */ other) => each === 1 || Math.abs(spot(at) - spot(other)) >= LINE - 0.5;
      const alone = !seen.length || free(seen[seen.length - 1]);
      if (alone && !(shows && (at === chosen || !free(chosen)))) seen.push(at);
    }
    if (shows) seen.push(chosen);
    fill(
      place,
      seen.map((at) => {
        const [on, number] = [at === chosen, (at + 1).toLocaleString("en")];
        const text = !positions ? cut(labels[at], LETTERS) : on ? placed(labels[at], at) : number;
        const label = h("span", { class: on ? "on" : null, title: shown(labels[at]) }, text);
        label.style[down ? "top" : "left"] = `${spot(at) + (turn === "slanted" ? side / 2 : 0)}px`;
        if (turn === "level") label.style.width = `${side}px`;
        if (down || turn === "upright") label.style.lineHeight = `${each > 1 ? LINE : room}px`;
        return label;
      }),
    );
  };
}

/** The least of 1, 2, 5, 10, 20 and so on that is as large. @param {number} step */
function round(step) {
  const power = 10 ** Math.floor(Math.log10(step));
  return [1, 2, 5, 10].map((digit) => digit * power).find((nice) => nice >= step) || step;
}
