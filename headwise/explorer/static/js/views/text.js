// @ts-check
/** The tokens of both sides, tinted by how much the looked-at query attends to each. */

import { h } from "../dom.js";
import { effect } from "../store.js";
import { SCALES, letters, ramp } from "../core/color.js";
import { number, shown } from "../core/text.js";
import { lock, lookedAt } from "./heat.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/** @param {HTMLElement} place @param {import("./heat.js").Head} head @returns {() => void} */
export function mount(place, head) {
  const { weights, group } = head;
  const columns = group.keys.length;
  const queries = group.queries.map((token, q) =>
    h(
      "button",
      {
        class: () => (lookedAt(head) === q ? "token chosen" : "token"),
        onclick: () => lock(q, strongest(weights, q, columns), head),
        onpointerenter: () => {
          state.hovered.value = { q, k: strongest(weights, q, columns) };
        },
        onpointerleave: () => {
          state.hovered.value = null;
        },
      },
      shown(token),
    ),
  );
  const keys = group.keys.map((token) => h("span", { class: "token" }, shown(token)));
  place.append(
    h("p", { class: "side" }, t("from")),
    h("div", { class: "tokens" }, queries),
    h("p", { class: "side" }, t("to")),
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

/** Puts the colour of a weight from 0 to 1 behind a token; its letters stay readable. @param {HTMLElement} node @param {number} weight */
export function tint(node, weight) {
  const name = state.dark.value ? "ink dark" : "ink light";
  const turn = SCALES[/** @type {keyof typeof SCALES} */ (state.scale.value)];
  const entry = Math.round(255 * turn(Math.min(1, Math.max(0, weight))));
  node.style.backgroundColor = `rgb(${ramp(name).subarray(4 * entry, 4 * entry + 3).join(", ")})`;
  node.style.color = letters(name, entry);
}

/** @param {Float32Array} weights @param {number} q @param {number} columns */
function strongest(weights, q, columns) {
  let found = 0;
  for (let k = 1; k < columns; k += 1) if (weights[q * columns + k] > weights[q * columns + found]) found = k;
  return found;
}
