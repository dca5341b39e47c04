// @ts-check
/** The labels along one side of a map: those of the rows or columns that are seen, as many as can be read. */

import { fill, h } from "../dom.js";
import { wide } from "../core/wide.js";
import { cut, shown } from "../core/text.js";

const LETTERS = 12;
/** Pixels that a line of text needs. */
const LINE = 13;

/** Pixels of the longest of some labels. @param {string[]} labels */
export const longest = (labels) => Math.max(0, ...labels.map((label) => wide(cut(label, LETTERS), 12.5)));

/**
 * @param {HTMLElement} place @param {string[]} labels @param {"rows" | "level" | "slanted" | "upright"} turn how they
 * lie
 * @param {number} size pixels that they take
 * @param {number} [start] the first label, where labels are numbers in order, of which round ones stay where not all
 * have room
 * @returns {(window: import("../core/zoom.js").Window, length: number, chosen: number) => void} draws them along so
 * many
 *   pixels; that of the chosen row or column always, and marked
 */
export function mount(place, labels, turn, size, start = -1) {
  const down = turn === "rows";
  place.className = down ? "rows axis" : `columns axis ${turn}`;
  place.style[down ? "width" : "height"] = `${size}px`;
  return ({ x, y, side: across, tall = across }, length, chosen) => {
    const [from, side] = down ? [y, tall] : [x, across];
    const needed = Math.max(1, Math.ceil(LINE / side));
    const each = start < 0 ? needed : round(needed);
    // the number of a place may be one more
    const first = start > 0 && each > 1 ? each - start : 0;
    const room = Math.max(LINE, side * each);
    const last = Math.min(labels.length, Math.ceil(from + length / side));
    const seen = [];
    for (let at = first + Math.ceil((Math.floor(from) - first) / each) * each; at < last; at += each)
      if (chosen < 0 || Math.abs(at - chosen) >= each) seen.push(at);
    if (chosen >= from && chosen < last) seen.push(chosen);
    fill(
      place,
      seen.map((at) => {
        const label = h(
          "span",
          { class: at === chosen ? "on" : null, title: shown(labels[at]) },
          cut(labels[at], LETTERS),
        );
        // where labels are left out, each stands at the middle of its own row or column
        const middle = (at - from) * side - (each > 1 ? (LINE - side) / 2 : 0);
        const start = each > 1 ? Math.max(0, Math.min(length - LINE, middle)) : middle;
        label.style[down ? "top" : "left"] = `${turn === "slanted" ? start + side / 2 : start}px`;
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
