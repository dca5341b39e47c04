// @ts-check
/** Switches above a map: words in place of sub-words, special tokens shown, hidden, or hidden and shared. */

import { h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { foldable } from "./seen.js";

/** Those that mean something for a group. @param {state.Trace} trace @param {state.Group} group */
export function switches(trace, group) {
  const can = foldable(trace, group);
  const words = () =>
    h(
      "button",
      {
        class: () => (state.merged.value ? "tab chosen" : "tab"),
        "aria-pressed": () => String(state.merged.value !== ""),
        onclick: () => state.mergedNext(),
        title: () => t("merged_note"),
      },
      () => t("merge"),
    );
  const special = () =>
    h(
      "button",
      { class: () => (state.special.value ? "tab chosen" : "tab"), onclick: () => state.specialNext() },
      () => `${t("special")}: ${t(`special_${state.special.value || "show"}`)}`,
    );
  return h("span", { class: "views" }, can.merged ? words() : null, can.special ? special() : null);
}
