// @ts-check
/** The keys of the page that writes, before those of all pages. */

import * as state from "../state.js";
import { lookAt, looking } from "./writing.js";

/**
 * @param {ReturnType<typeof import("./player.js").player>} self @param {{ peek: () => number }} count
 * @param {{ peek: () => { it: import("../core/search.js").Search } }} search @returns {() => void} ends it
 */
export function keyboard(self, count, search) {
  const around = (/** @type {number} */ part, /** @type {number} */ by) => {
    const now = [...looking(search.peek().it)];
    const count = size(part ? "heads" : "layers");
    // -1, the mean, is one of them
    now[part] = ((now[part] + 1 + by + count + 1) % (count + 1)) - 1;
    lookAt(now);
  };
  const size = (/** @type {string} */ what) => {
    const start = search.peek().it.start;
    if (!start) return 0;
    return what === "heads"
      ? start.kept === "heads"
        ? start.heads
        : 0
      : start.kept === "mean"
        ? 0
        : start.layers.length;
  };
  /** The row that is told of: the locked one, else the last. */
  const now = () => {
    const [row, last] = [state.query.peek(), self.step()];
    return row < 0 || row > last ? last : row;
  };
  /** Another row of those that stand. @param {number} by */
  const row = (by) => {
    if (self.playing()) self.go(self.step());
    state.lock({ q: Math.max(0, Math.min(self.step(), now() + by)), k: -1 });
  };
  /** @type {Record<string, () => void>} */
  const keys = {
    " ": () => self.turn(),
    ArrowUp: () => row(-1),
    ArrowDown: () => row(1),
    ArrowLeft: () => self.go(now() - 1),
    ArrowRight: () => self.go(now() + 1),
    Home: () => self.go(0),
    End: () => self.go(count.peek() - 1),
    "[": () => around(0, -1),
    "]": () => around(0, 1),
    ",": () => around(1, -1),
    ".": () => around(1, 1),
    Escape: () => {
      // the last choice first: a cell, which all pages release, a hypothesis, what is forced
      if (state.query.peek() >= 0) return;
      if (state.node.peek() >= 0) state.node.value = -1;
      else state.forced.value = "";
    },
  };
  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    const work = keys[event.key];
    // elsewhere they scroll
    if (/Up|Down/.test(event.key) && !target.matches("canvas.heat")) return;
    if (
      !work ||
      (!state.singles.value && /^[^ ]$/.test(event.key)) ||
      !count.peek() ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey
    )
      return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || (event.key === " " && target.tagName === "BUTTON")) return;
    event.preventDefault();
    if (event.key !== "Escape") event.stopPropagation();
    work();
  };
  document.addEventListener("keydown", pressed, true);
  return () => document.removeEventListener("keydown", pressed, true);
}
