// @ts-check
/** What stands on a page that cannot show the chosen run: where it is shown, its inputs, and runs that the page can. */

import { h } from "../dom.js";
import * as state from "../state.js";
import { learn, named, phrase, t } from "../strings.js";
import { WORDS } from "../words/tasks.js";
import { later, rested } from "./later.js";

learn(WORDS);

/**
 * @param {HTMLElement} place @param {(run: any) => boolean} fits @param {string} words which runs fit
 * @returns {(() => void) | null} null: the chosen run fits
 */
export function mount(place, fits, words) {
  const run = state.chosenRun();
  if (run && fits(run)) return null;
  const others = (state.meta.value ? state.meta.value.models : []).filter(fits);
  const way = h("a", { href: state.address(state.best()) }, t(state.best()));
  const begun = h("div");
  place.append(h("p", {}, run ? phrase(words, run.name, way) : t("no_runs")), offers(others), begun);
  document.documentElement.dataset.ready = "none";
  return run
    ? later(() => rested().then(() => import("./begin.js")), begun, "look_on", run.name, t(state.best()))
    : () => {};
}

/** Runs to choose from, each with what it does. @param {any[]} runs */
export const offers = (runs) =>
  h(
    "ul",
    { class: "offers" },
    runs.map(({ name, task }) =>
      h(
        "li",
        {},
        h("button", { class: "choose", onclick: () => state.pick(name) }, name),
        " ",
        h("span", { class: "side" }, named("task", task)),
      ),
    ),
  );
