// @ts-check
/** The tokens of both sides, tinted by how much the looked-at query attends to each. */

import { h } from "../dom.js";
import { effect } from "../store.js";
import { SCALES, letters, ramp } from "../core/color.js";
import { number } from "../core/text.js";
import * as ends from "./ends.js";
import { lookedAt } from "./heat.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/** @param {HTMLElement} place @param {import("./heat.js").Head} head @returns {() => void} */
export function mount(place, head) {
  const { weights, group } = head;
  const columns = group.keys.length;
  const { queries, keys } = ends.mount(head);
  place.append(
    h("p", { class: "side" }, t("attends_from")),
    h("div", { class: "tokens" }, queries),
    h("p", { class: "side" }, t("attends_to")),
    h("div", { class: "tokens" }, keys),
  );
  return effect(() => {
    const q = lookedAt(head);
    keys.forEach((node, k) => {
      tint(node, q < 0 ? 0 : weights[q * columns + k]);
      node.title = q < 0 ? "" : number(weights[q * columns + k]);
    });
  });
}

/**
 * Puts the colour of a weight from 0 to 1 behind a token; its letters stay readable.
 * @param {HTMLElement} node
 * @param {number} weight
 */
export function tint(node, weight) {
  const name = state.dark.value ? "ink dark" : "ink light";
  const turn = SCALES[/** @type {keyof typeof SCALES} */ (state.scale.value)];
  const entry = Math.round(255 * turn(Math.min(1, Math.max(0, weight))));
  node.style.backgroundColor = `rgb(${ramp(name)
    .subarray(4 * entry, 4 * entry + 3)
    .join(", ")})`;
  node.style.color = letters(name, entry);
}
