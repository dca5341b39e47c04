// @ts-check
/** Which of the runs a page can show, and a word where the chosen one is none of them. */

import { h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/**
 * Whether a page can show the chosen run; where it cannot, the runs that it can are offered.
 * @param {HTMLElement} place @param {(run: any) => boolean} fits @param {string} word
 */
export function fitting(place, fits, word) {
  const run = state.chosenRun();
  if (run && fits(run)) return true;
  const others = (state.meta.value ? state.meta.value.models : []).filter(fits);
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
