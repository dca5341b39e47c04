// @ts-check
/** What stands where there is nothing to show: why, and what to do next. */

import { h } from "../dom.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { phrase, t } from "../strings.js";
import { later } from "./later.js";

/** Whether the refusal is that of the example: there are others. */
const lacking = () => new RegExp(`(example|示例) ${state.example.value}(?!\\d)`).test(state.problem.value);

/** What is said: in parts where the page Home is between them. */
function words() {
  if (state.problem.value) return [state.problem.value];
  if (state.meta.value && !state.meta.value.models.length) return [t("no_runs")];
  return state.asked() ? [t("loading")] : phrase("empty", "");
}

/** A line that follows what is asked for. */
export const nothing = () =>
  h(
    "p",
    {
      class: () => (state.problem.value ? "state failed" : "state"),
      role: "status",
      hidden: () => Boolean(state.trace.value),
    },
    () => words()[0],
    h("a", { href: () => state.address(""), hidden: () => words().length < 2 }, () => t("home")),
    () => words()[2],
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

/**
 * Inputs that can be shown, while the one that was asked for cannot.
 * @param {HTMLElement} place
 * @returns {() => void}
 */
export function others(place) {
  const node = h("div", { class: "offered" });
  place.append(node);
  return effect(() => {
    node.replaceChildren();
    if (!state.problem.value || !state.chosenRun()) return undefined;
    document.documentElement.dataset.ready = "none";
    return later(() => import("./begin.js"), node, "instead");
  });
}

/** Both, of a page that needs them where it is refused alone. @param {HTMLElement} place @returns {() => void} */
export function mount(place) {
  place.append(nothing());
  return others(place);
}
