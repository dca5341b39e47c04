// @ts-check
/** What stands in place of a page where the address names a run that is not served: those that are. */

import { h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/** @param {HTMLElement} place */
export function mount(place) {
  const run = (/** @type {{ name: string }} */ { name }) =>
    h("button", { class: "choose", onclick: () => state.pick(name) }, name);
  place.append(
    h("p", { class: "state failed", role: "status" }, () => t("no_such_run", state.model.value)),
    h("div", { class: "tabs" }, state.meta.value.models.map(run)),
  );
  document.documentElement.dataset.ready = "none";
  return () => {};
}
