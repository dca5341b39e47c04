// @ts-check
/** The tokens of both sides as buttons, one stop of the keyboard: a click chooses one, a key behind a query a pair. */

import { h } from "../dom.js";
import { shown } from "../core/text.js";
import { choose, chosen, locked } from "./heat.js";
import * as state from "../state.js";
import { effect } from "../store.js";

/** How far a key goes along a side, where tokens stand below or behind each other. @type {Record<string, number>} */
const BELOW = { ArrowDown: 1, ArrowUp: -1 };
/** @type {Record<string, number>} */
const BEHIND = { ArrowRight: 1, ArrowLeft: -1 };
/** @type {Record<string, number>} */
const FAR = { Home: -Infinity, End: Infinity };

/**
 * @param {import("./heat.js").Head & { press?: (side: "q" | "k", place: number) => void }} head
 * @param {"below" | "behind"} order how the tokens of a side stand
 * @param {{ q: number[] | null, k: number[] | null }} [positions] in a larger head, with which tokens are shown
 * @returns {{ queries: HTMLElement[], keys: HTMLElement[], end: () => void }} `end`: they follow what is chosen no more
 */
export function mount(head, order, positions) {
  const numbered = (/** @type {"q" | "k"} */ side, /** @type {number} */ place) => {
    const all = positions?.[side];
    return all ? h("span", { class: "at" }, ` (${all[place] + 1})`) : "";
  };
  const token = (/** @type {string} */ text, /** @type {"q" | "k"} */ side, /** @type {number} */ place) => {
    const alone = side === "q" ? { q: place, k: -1 } : { q: -1, k: place };
    const node = h(
      "button",
      {
        class: "token",
        "aria-pressed": "false",
        tabindex: -1,
        onclick: () => (head.press ? head.press(side, place) : choose(next(locked(head), side, place), head)),
        // a finger points at nothing before it taps
        onpointerenter: (/** @type {PointerEvent} */ event) => {
          if (event.pointerType !== "touch") state.hovered.value = alone;
        },
        onpointerleave: () => (state.hovered.value = null),
        onfocus: () => {
          stop(node);
          if (node.matches(":focus-visible")) state.hovered.value = alone;
        },
        onblur: () => (state.hovered.value = null),
      },
      h("span", { class: "name" }, shown(text)),
      numbered(side, place),
    );
    return node;
  };
  const sides = {
    queries: head.group.queries.map((text, q) => token(text, "q", q)),
    keys: head.group.keys.map((text, k) => token(text, "k", k)),
  };
  const stop = (/** @type {HTMLElement} */ node) =>
    [...sides.queries, ...sides.keys].forEach((one) => (one.tabIndex = one === node ? 0 : -1));
  stop(sides.queries[Math.max(0, chosen(head).q)] || sides.keys[0]);
  [sides.queries, sides.keys].forEach((side, which, both) =>
    side.forEach((node, place) =>
      node.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
        const [along, across] = order === "below" ? [BELOW, BEHIND] : [BEHIND, BELOW];
        const [by, over] = [along[event.key] || FAR[event.key] || 0, across[event.key] || 0];
        if (!by && !over) return;
        event.preventDefault();
        event.stopPropagation();
        const to = by ? side : both[1 - which];
        const next = to[Math.max(0, Math.min(to.length - 1, place + by))];
        if (by || order === "below") next?.focus();
        else (inLine(side, node, over) || inLine(over > 0 === !which ? to : [], node, over))?.focus();
      }),
    ),
  );
  const [looked, pressed] = [marking(sides), marking(sides)];
  const ends = [
    effect(() => looked(state.hovered.value || locked(head), (node, on) => node.classList.toggle("chosen", on))),
    effect(() => pressed(locked(head), (node, on) => node.setAttribute("aria-pressed", String(on)))),
  ];
  return { ...sides, end: () => ends.forEach((end) => end()) };
}

/**
 * The token of the next line that is nearest to one, or of the first or last line of another side.
 * @param {HTMLElement[]} side @param {HTMLElement} from @param {number} by 1 for the line below, -1 for that above
 * @returns {HTMLElement | undefined}
 */
function inLine(side, from, by) {
  const boxes = side.map((node) => ({ node, box: node.getBoundingClientRect() }));
  const own = from.getBoundingClientRect();
  const away = (/** @type {DOMRect} */ { left, width }) => Math.abs(left + width / 2 - own.left - own.width / 2);
  const beyond = boxes.filter(({ box }) => !side.includes(from) || by * (box.top - own.top) > own.height / 2);
  const line = (by > 0 ? beyond[0] : beyond[beyond.length - 1])?.box.top;
  const within = beyond.filter(({ box }) => Math.abs(box.top - line) < own.height / 2);
  return within.sort((one, two) => away(one.box) - away(two.box))[0]?.node;
}

/**
 * Marks the chosen token of each side alone: hundreds that each follow what is chosen would take longer.
 * @param {{ queries: HTMLElement[], keys: HTMLElement[] }} sides
 * @returns {(at: { q: number, k: number }, mark: (node: HTMLElement, on: boolean) => void) => void}
 */
function marking({ queries, keys }) {
  /** @type {HTMLElement[]} */
  let before = [];
  return ({ q, k }, mark) => {
    before.forEach((node) => mark(node, false));
    before = [queries[q], keys[k]].filter(Boolean);
    before.forEach((node) => mark(node, true));
  };
}

/**
 * What is chosen after a click on a token.
 * @param {{ q: number, k: number }} now
 * @param {"q" | "k"} side @param {number} place
 */
function next(now, side, place) {
  if (side === "q") return { q: now.q === place && now.k < 0 ? -1 : place, k: -1 };
  return { q: now.q, k: now.k === place ? -1 : place };
}
