// @ts-check
/** The labels along one side of a map: those of the rows or columns that are seen, as many as can be read. */

import { fill, h } from "../dom.js";
import { wide } from "../core/canvas.js";
import { apart, cut, shown } from "../core/text.js";

const [LETTERS, FEW] = [12, 6];
/** Pixels that a line of text needs, and one that stands upright beside others. */
const [LINE, UPRIGHT] = [13, 16];

/** Labels of which the chosen one may have its position; every how many are shown where positions stand for tokens. */
const [MANY, SPARSE] = [128, 4];

/** @param {string} label @param {number} at */
const placed = (label, at) => `${cut(label, LETTERS)} (${(at + 1).toLocaleString("en")})`;

/** @param {string[]} labels */
const repeats = (labels) => new Set(labels).size < labels.length;

/** Each label, with its position where another one is alike. @param {string[]} labels @param {number} [since] */
const names = (labels, since) => apart(labels, (label) => cut(label, LETTERS), since);

/** @param {string[]} labels @param {number} [since] positions before the first */
export function longest(labels, since = 0) {
  const whole = labels.length > MANY && repeats(labels);
  const name = labels.length > MANY ? null : names(labels, since);
  return Math.max(
    0,
    ...labels.map((label, at) => wide(whole ? placed(label, at + since) : name ? name(at) : cut(label, LETTERS), 12.5)),
  );
}

/** The same of labels that are short where they are many. @param {string[]} labels @param {number} [since] */
export const shortest = (labels, since = 0) =>
  labels.length > MANY ? Math.max(...labels.map((label) => wide(cut(label, FEW), 12.5))) : longest(labels, since);

/**
 * @param {HTMLElement} place @param {string[]} labels @param {"rows" | "level" | "slanted" | "upright"} turn
 * @param {number} size pixels that they take
 * @param {{ counted?: boolean, seam?: number, short?: boolean, every?: number, since?: number }} [how] `counted`:
 *   positions stand for labels that are left out, also for the chosen one where it is `short`; `seam`: labels before
 *   what the model wrote; `every`: columns of a row of patches; `since`: positions before the first
 * @returns {(window: import("../core/zoom.js").Window, length: number, chosen: number) => void} draws them along so
 * many
 *   pixels; that of the chosen row or column always, and marked
 */
export function mount(
  place,
  labels,
  turn,
  size,
  { counted = repeats(labels), seam = 0, short = false, every = 0, since = 0 } = {},
) {
  const line = turn === "upright" ? UPRIGHT : LINE;
  const name = labels.length > MANY ? null : names(labels, since);
  const down = turn === "rows";
  const brief = short && labels.length > MANY;
  place.className = down ? "rows axis" : `columns axis ${turn}`;
  place.style[down ? "width" : "height"] = `${size}px`;
  // nodes that are numbers have these names everywhere
  const numbers = labels.every((label, at) => label === String(at));
  return ({ x, y, side: across, tall = across }, length, chosen) => {
    const [from, side] = down ? [y, tall] : [x, across];
    const needed = Math.max(1, Math.ceil(line / side));
    // rows and columns of a map change to positions together
    const positions = Math.ceil(UPRIGHT / across) >= SPARSE && needed > 1 && counted && !numbers;
    const whole = needed > 1 ? every : 0;
    const each = whole
      ? Math.ceil(needed / whole) * whole
      : needed > 1 && (numbers || positions)
        ? round(needed)
        : needed;
    const first = whole ? labels.length % whole : positions ? each - 1 : 0;
    const room = Math.max(line, side * each);
    const last = Math.min(labels.length, Math.ceil(from + length / side));
    // where labels are left out, each stands at the middle of its own row or column
    const spot = (/** @type {number} */ at) => {
      const middle = (at - from) * side - (each > 1 ? (line - side) / 2 : 0);
      return each > 1 && !numbers ? Math.max(0, Math.min(length - line, middle)) : middle;
    };
    const shows = chosen >= from && chosen < last;
    const seen = [];
    for (let at = first + Math.ceil((Math.floor(from) - first) / each) * each; at < last; at += each) {
      const free = (/** @type {number} */ other) => each === 1 || Math.abs(spot(at) - spot(other)) >= line - 0.5;
      const alone = !seen.length || free(seen[seen.length - 1]);
      if (alone && !(shows && (at === chosen || !free(chosen)))) seen.push(at);
    }
    if (shows) seen.push(chosen);
    fill(
      place,
      seen.map((at) => {
        const [on, number] = [at === chosen, (at + 1 + since).toLocaleString("en")];
        const token = name ? name(at) : cut(labels[at], brief ? FEW : LETTERS);
        const text = !positions ? token : on && !brief ? placed(labels[at], at + since) : number;
        const kind = `${on ? "on " : ""}${seam && at >= seam ? "written" : ""}`;
        const label = h("span", { class: kind || null, title: shown(labels[at]) }, text);
        label.style[down ? "top" : "left"] = `${spot(at) + (turn === "slanted" ? side / 2 : 0)}px`;
        if (turn === "level") label.style.width = `${side}px`;
        if (down || turn === "upright") label.style.lineHeight = `${each > 1 ? line : room}px`;
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
