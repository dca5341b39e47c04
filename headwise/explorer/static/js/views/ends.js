// @ts-check
/** The tokens of both sides as buttons: a click chooses a token alone; a key chosen behind a query makes a pair. */

import { h } from "../dom.js";
import { shown } from "../core/text.js";
import { choose, locked } from "./heat.js";
import * as state from "../state.js";

/** @param {import("./heat.js").Head} head @returns {{ queries: HTMLElement[], keys: HTMLElement[] }} */
export function mount(head) {
  const at = () => state.hovered.value || locked(head);
  const token = (/** @type {string} */ text, /** @type {"q" | "k"} */ side, /** @type {number} */ place) => {
    const chosen = () => at()[side] === place;
    return h(
      "button",
      {
        class: () => (chosen() ? "token chosen" : "token"),
        "aria-pressed": () => String(locked(head)[side] === place),
        onclick: () => choose(next(locked(head), side, place), head),
        onpointerenter: () => (state.hovered.value = side === "q" ? { q: place, k: -1 } : { q: -1, k: place }),
        onpointerleave: () => (state.hovered.value = null),
      },
      shown(text),
    );
  };
  return {
    queries: head.group.queries.map((text, q) => token(text, "q", q)),
    keys: head.group.keys.map((text, k) => token(text, "k", k)),
  };
}

/**
 * What is chosen after a click on a token.
 * @param {{ q: number, k: number }} now
 * @param {"q" | "k"} side
 * @param {number} place
 */
function next(now, side, place) {
  if (side === "q") return { q: now.q === place && now.k < 0 ? -1 : place, k: -1 };
  return { q: now.q, k: now.k === place ? -1 : place };
}
