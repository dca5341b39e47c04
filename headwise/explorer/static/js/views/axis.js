// @ts-check
/** The labels along one side of a map: those of the rows or columns that are seen, as many as can be read. */

import { fill, h } from "../dom.js";
import { wide } from "../core/picture.js";
import { cut, shown } from "../core/text.js";

const LETTERS = 12;
/** Pixels that a line of text needs. */
const LINE = 12;

/**
 * @param {HTMLElement} place @param {string[]} labels @param {boolean} down whether they are those of rows
 * @returns {(window: import("../core/zoom.js").Window, length: number) => void} draws them along so many pixels
 */
export function mount(place, labels, down) {
  const size = Math.max(0, ...labels.map((label) => wide(cut(label, LETTERS), 12.5))) + 10;
  place.className = down ? "rows axis" : "columns axis";
  place.style[down ? "width" : "height"] = `${size}px`;
  return ({ x, y, side }, length) => {
    const from = down ? y : x;
    const each = Math.max(1, Math.ceil(LINE / side));
    const room = Math.max(LINE, side * each);
    const last = Math.min(labels.length, Math.ceil(from + length / side));
    const found = [];
    for (let at = Math.ceil(Math.floor(from) / each) * each; at < last; at += each) {
      const label = h("span", { title: shown(labels[at]) }, cut(labels[at], LETTERS));
      // where labels are left out, each stands at the middle of its own row or column
      const start = (at - from) * side - (each > 1 ? (LINE - side) / 2 : 0);
      label.style[down ? "top" : "left"] = `${start}px`;
      label.style.lineHeight = `${each > 1 ? LINE : room}px`;
      found.push(label);
    }
    fill(place, found);
  };
}
