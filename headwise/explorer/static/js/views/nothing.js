// @ts-check
/** What stands where there is nothing to show: why, and what to do next. */

import { fill, follow, h } from "../dom.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { phrase, t } from "../strings.js";
import { later } from "./later.js";

/** Pages on which a picture is sent. */
const SENDING = new Set(["vision", "attend"]);

/** Whether the run has no examples of its own. */
const bare = () => state.problem.value?.kind === "none";

/** Whether the refusal is that of the example: there are others. */
const lacking = () => state.problem.value?.kind === "beyond";

/** Where an input is taken from; a picture is sent where there is a field for it. */
export function begin() {
  const link = (/** @type {string} */ page) => h("a", { href: state.address(page) }, t(page || "home"));
  if (state.reads() !== "image") return phrase("empty", link(""));
  return SENDING.has(state.page.value) ? [t("send_picture")] : phrase("send_on", link("vision"));
}

/** What is said. */
function words() {
  if (state.problem.value) return [state.problem.value.message, ...(bare() ? [" ", ...begin()] : [])];
  if (state.meta.value && !state.meta.value.models.length) return [t("no_runs")];
  return state.asked() || state.sample.value ? [t("loading")] : begin();
}

/** A line that follows what is asked for. */
export function nothing() {
  const line = h("span");
  follow(line, () => fill(line, words()));
  return h(
    "p",
    {
      class: () => (state.problem.value ? "state failed" : "state"),
      role: "status",
      hidden: () => Boolean(state.trace.value),
    },
    line,
    " ",
    h(
      "button",
      {
        class: "small link",
        hidden: () => state.example.value < 1 || !lacking(),
        onclick: () => state.give({ example: 0 }),
      },
      () => t("first_example"),
    ),
  );
}

/** Inputs that can be shown, while the one that was asked for cannot. @param {HTMLElement} place */
export function others(place) {
  const node = h("div", { class: "offered" });
  place.append(node);
  return effect(() => {
    node.replaceChildren();
    if (!state.problem.value || !state.chosenRun()) return undefined;
    document.documentElement.dataset.ready = "none";
    return bare() && state.reads() !== "text" ? undefined : later(() => import("./begin.js"), node, "instead");
  });
}

/** Both, of a page that needs them where it is refused alone. @param {HTMLElement} place */
export function mount(place) {
  place.append(nothing());
  return others(place);
}
