// @ts-check
/** The tokens of both sides, tinted by how much the looked-at query attends to each. */

import { h } from "../dom.js";
import { effect } from "../store.js";
import { SCALES, bright, ramp } from "../core/color.js";
import { number, shown } from "../core/text.js";
import { lock } from "./heat.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/** @param {HTMLElement} place @param {{ weights: Float32Array, group: state.Group }} head @returns {() => void} */
export function mount(place, { weights, group }) {
  const columns = group.keys.length;
  const queries = group.queries.map((token, q) =>
    h(
      "button",
      {
        class: () => (state.lookedAt() === q ? "token chosen" : "token"),
        onclick: () => lock(q, strongest(weights, q, columns), weights, group),
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
    const q = state.lookedAt();
    const name = state.dark.value ? "ink dark" : "ink light";
    const table = ramp(name);
    const turn = SCALES[/** @type {keyof typeof SCALES} */ (state.scale.value)];
    keys.forEach((node, k) => {
      const weight = q < 0 ? 0 : Math.max(0, weights[q * columns + k]);
      const entry = Math.round(255 * turn(Math.min(1, weight)));
      node.style.backgroundColor = `rgb(${table.subarray(4 * entry, 4 * entry + 3).join(", ")})`;
      // letters stay readable on every colour
      node.style.color = bright(name, entry) ? "#15171d" : "#f8fafd";
      node.title = q < 0 ? "" : number(weights[q * columns + k]);
    });
  });
}

/** @param {Float32Array} weights @param {number} q @param {number} columns */
function strongest(weights, q, columns) {
  let found = 0;
  for (let k = 1; k < columns; k += 1) if (weights[q * columns + k] > weights[q * columns + found]) found = k;
  return found;
}
