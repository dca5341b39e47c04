// @ts-check
/**
 * How it is written and what is looked at: hypotheses, layer, head, forced tokens; an end to the work, or once
 * more.
 */

import { fill, h } from "../dom.js";
import { shown } from "../core/text.js";
import { pathTo } from "../core/search.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { t } from "../strings.js";
import { layerNumber } from "../titles.js";
import { lookAt, looking } from "./writing.js";

const BEAMS = [1, 2, 3, 4, 5, 6, 8];

/** @typedef {{ it: import("../core/search.js").Search, best: number }} Shown */

/**
 * @param {{ value: Shown }} search @param {{ value: AbortController | null }} open
 * @param {() => void} stop @param {() => void} again
 */
export function options(search, open, stop, again) {
  const start = () => search.value.it.start;
  const heads = () => (start() && start().kept === "heads" ? start().heads : 0);
  const layers = () => (start() && start().kept !== "mean" ? start().layers : []);
  let usual = 0;
  // how many the recipe says is seen once it has written so
  const recipe = () => {
    const { steps, end } = search.value.it;
    if (end && !state.beams.value) usual = Math.max(...steps.map(({ ids }) => ids.length));
    return usual ? `${t("recipe")} (${usual})` : t("recipe");
  };
  const beams = { get: () => state.beams.value, set: (/** @type {number} */ count) => (state.beams.value = count) };
  const part = (/** @type {number} */ which) => ({
    get: () => looking(search.value.it)[which],
    set: (/** @type {number} */ to) =>
      lookAt(
        looking(search.value.it).map((/** @type {number} */ now, /** @type {number} */ at) =>
          at === which ? to : now,
        ),
      ),
  });
  const selects = [
    chosen("beams", beams, () => [[0, recipe()], ...BEAMS.map((count) => [count, String(count)])]),
    chosen("layer", part(0), () => [
      [-1, t("mean")],
      ...layers().map((/** @type {string} */ name, /** @type {number} */ at) => [at, layerNumber(name, at)]),
    ]),
    chosen("head", part(1), () => [
      [-1, t("mean")],
      ...Array.from({ length: heads() }, (_, at) => [at, String(at + 1)]),
    ]),
  ];
  const node = h(
    "div",
    { class: "options" },
    selects.map((one) => one.node),
    h("button", { class: "stop", hidden: () => !open.value, onclick: stop }, "■ ", () => t("stop")),
    h(
      "button",
      {
        class: "again",
        "aria-label": () => t("again"),
        title: () => t("again"),
        hidden: () => Boolean(open.value) || !state.asked(),
        onclick: again,
      },
      "↻ ",
      h("span", {}, () => t("again")),
    ),
    h(
      "button",
      { class: "release", hidden: () => !state.forced.value, onclick: () => (state.forced.value = "") },
      () => `✕ ${t("forced")}: ${names(search.value)}`,
    ),
    h(
      "button",
      { hidden: () => onBest(search.value), onclick: () => (state.node.value = -1) },
      () => `↶ ${t("the_best")}`,
    ),
  );
  return { node, end: () => selects.forEach((one) => one.end()) };
}

/** Whether the best hypothesis is shown, so that nothing leads back to it. @param {Shown} search */
const onBest = ({ it, best }) =>
  !it.beams.has(state.node.value) || pathTo(it, best).some(({ id }) => id === state.node.value);

/** The tokens that are forced, as they are written. @param {Shown} search */
function names({ it, best }) {
  const count = state.forced.value.split(",").length;
  return pathTo(it, best)
    .slice(0, count)
    .map((beam) => shown(beam.text))
    .join(" ");
}

/**
 * @param {string} name @param {{ get: () => number, set: (value: number) => void }} part
 * @param {() => any[][]} values
 */
function chosen(name, part, values) {
  const select = h("select", { "aria-label": () => t(name), onchange: () => part.set(Number(select.value)) });
  let before = "";
  const end = effect(() => {
    const all = values();
    const now = JSON.stringify(all);
    if (now !== before)
      fill(
        select,
        all.map(([value, label]) => h("option", { value }, label)),
      );
    before = now;
    const chosen = part.get();
    select.value = String(all.some(([value]) => value === chosen) ? chosen : all[0][0]);
  });
  return { node: h("label", {}, () => t(name), " ", select), end };
}
