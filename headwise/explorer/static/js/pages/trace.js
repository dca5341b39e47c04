// @ts-check
/** Every step of the chosen head with its formula and its numbers. */

import { getJson, query } from "../api.js";
import { fill, h } from "../dom.js";
import { effect } from "../store.js";
import { formula } from "../core/formula.js";
import { cut, number } from "../core/text.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { picker } from "../views/picker.js";

const WHOLE = 12;

/** @typedef {{ name: string, symbol: string, formula: string, text: string, axes: string[], shape: number[], values: any[] }} Step */

/** @param {HTMLElement} place @returns {() => void} */
export function mount(place) {
  return effect(() => {
    const [trace, group] = [state.trace.value, state.chosen()];
    if (!trace || !group) {
      fill(place, h("p", {}, t("empty")));
      return undefined;
    }
    const { layer, head } = state.place(group);
    let alive = true;
    const asked = `/api/v1/traces/${trace.trace_id}/steps?${query({ layer, head })}`;
    getJson(asked).then(
      (found) => {
        if (!alive) return;
        fill(place, h("h1", {}, `${layer}, ${t("head")} ${head}`), picker(trace, group), found.steps.map((/** @type {Step} */ step) => shown(step, group)));
        document.documentElement.dataset.ready = `steps/${layer}/${head}`;
      },
      (error) => {
        if (alive) state.status.value = error.message;
      },
    );
    return () => {
      alive = false;
    };
  });
}

/** @param {Step} step @param {state.Group} group */
function shown(step, group) {
  const labels = { queries: group.queries, keys: group.keys };
  const tables = step.shape.length === 2 ? [["", step.values]] : step.values.map((one, q) => [group.queries[q], one]);
  const [rows, columns] = step.axes.slice(-2);
  return h(
    "section",
    { class: "panel step" },
    h("h2", {}, `${step.name} `, formula(step.formula)),
    h("p", {}, `${step.text} · ${t("shape")} ${step.shape.join(" × ")}`),
    tables.slice(0, WHOLE).map(([title, values]) => table(title, values, /** @type {any} */ (labels)[rows], /** @type {any} */ (labels)[columns])),
  );
}

/** @param {string} title @param {number[][]} values @param {string[] | undefined} rows @param {string[] | undefined} columns */
function table(title, values, rows, columns) {
  const down = ends(values.length);
  const across = ends(values.length ? values[0].length : 0);
  const name = (/** @type {string[] | undefined} */ names, /** @type {number} */ at) => (at < 0 ? "…" : names ? cut(names[at], 10) : String(at));
  return h(
    "div",
    { class: "scrolls", tabindex: 0 },
    title ? h("p", { class: "side" }, title) : null,
    h(
      "table",
      { class: "numbers" },
      h("thead", {}, h("tr", {}, h("td"), across.map((k) => h("th", { scope: "col" }, name(columns, k))))),
      h(
        "tbody",
        {},
        down.map((q) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, name(rows, q)),
            across.map((k) => h("td", {}, q < 0 || k < 0 ? "…" : number(values[q][k] === null ? -Infinity : values[q][k]))),
          ),
        ),
      ),
    ),
  );
}

/** The first and the last places of many, with -1 where some are left out. @param {number} length */
function ends(length) {
  const all = Array.from({ length }, (_, at) => at);
  return length <= WHOLE ? all : [...all.slice(0, WHOLE / 2), -1, ...all.slice(-WHOLE / 2)];
}
