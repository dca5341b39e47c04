// @ts-check
/** What stands in place of a page where the address names a run that is not served: those that are. */

import { h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { offers } from "./fitting.js";

/** @param {HTMLElement} place */
export function mount(place) {
  place.append(
    h("p", { class: "state failed", role: "status" }, () => t("no_such_run", state.model.value)),
    offers(state.meta.value.models),
  );
  document.documentElement.dataset.ready = "none";
  return () => {};
}
