// @ts-check
/** Which of the runs a page can show, and a word where the chosen one is none of them. */

import { h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/**
 * Whether the chosen run reads what a page shows; where it does not, the runs that do are offered.
 * @param {HTMLElement} place @param {string[]} kinds @param {string} word
 */
export function fitting(place, kinds, word) {
  if (kinds.includes(state.reads())) return true;
  const models = state.meta.value ? state.meta.value.models : [];
  const others = models.filter((/** @type {any} */ one) => kinds.includes(one.input));
  place.append(
    h("p", {}, t(word)),
    h(
      "div",
      { class: "tabs" },
      others.map((/** @type {any} */ one) =>
        h("button", { class: "choose", onclick: () => state.pick(one.name) }, one.name),
      ),
    ),
  );
  document.documentElement.dataset.ready = "none";
  return false;
}
