// @ts-check
/** Every step of the chosen head with its formula and its numbers. */

import { getJson, query } from "../api.js";
import { fill, h } from "../dom.js";
import { effect } from "../store.js";
import { formula } from "../core/formula.js";
import { cut, number } from "../core/text.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { headTitle } from "../titles.js";
import { picker } from "../views/picker.js";
import * as supposing from "../views/supposing.js";
import { WORDS } from "../words/trace.js";

learn(WORDS);

const WHOLE = 12;

/**
 * @typedef {{ name: string, symbol: string, formula: string, text: string, axes: string[], shape: number[], values:
 * any[] }} Step
 */

/** @param {HTMLElement} place @returns {() => void} */
export function mount(place) {
  const [head, controls, steps] = [h("div"), h("div"), h("div")];
  place.append(
    h("h1", { class: "unseen" }, () => t("trace")),
    head,
    controls,
    steps,
  );
  const ends = [
    effect(() => {
      const [trace, group] = [state.trace.value, state.chosen()];
      fill(head, trace && group ? [titled(group), picker(trace, group)] : h("p", {}, t("empty")));
    }),
    effect(() => {
      const [trace, group] = [state.trace.value, state.chosen()];
      return trace && group ? supposing.mount(controls, trace, state.place(group).layer) : undefined;
    }),
    effect(() => followed(steps)),
  ];
  return () => ends.forEach((end) => end());
}

/** @param {state.Group} group */
function titled(group) {
  const { at, layer, head } = state.place(group);
  return h("h2", { title: layer }, headTitle(group, at, head));
}

/** Asks for the steps of the chosen head, with what is supposed of it. @param {HTMLElement} place */
function followed(place) {
  const [trace, group] = [state.trace.value, state.chosen()];
  if (!trace || !group) {
    fill(place);
    return undefined;
  }
  const { layer, head } = state.place(group);
  const asked = supposing.asked();
  let alive = true;
  getJson(`/api/v1/traces/${trace.trace_id}/steps?${query({ layer, head, ...asked })}`).then(
    (found) => {
      if (!alive) return;
      fill(
        place,
        found.steps.map((/** @type {Step} */ step) => shown(step, group)),
      );
      document.documentElement.dataset.ready = ["steps", layer, head, ...Object.values(asked)].join("/");
    },
    (error) => {
      if (alive) state.status.value = error.message;
    },
  );
  return () => {
    alive = false;
  };
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
    tables
      .slice(0, WHOLE)
      .map(([title, values]) =>
        table(title, values, /** @type {any} */ (labels)[rows], /** @type {any} */ (labels)[columns]),
      ),
  );
}

/**
 * @param {string} title
 * @param {number[][]} values
 * @param {string[] | undefined} rows
 * @param {string[] | undefined} columns
 */
function table(title, values, rows, columns) {
  const down = ends(values.length);
  const across = ends(values.length ? values[0].length : 0);
  const name = (/** @type {string[] | undefined} */ names, /** @type {number} */ at) =>
    at < 0 ? "…" : names ? cut(names[at], 10) : String(at);
  return h(
    "div",
    { class: "scrolls", tabindex: 0 },
    title ? h("p", { class: "side" }, title) : null,
    h(
      "table",
      { class: "numbers" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("td"),
          across.map((k) => h("th", { scope: "col" }, name(columns, k))),
        ),
      ),
      h(
        "tbody",
        {},
        down.map((q) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, name(rows, q)),
            across.map((k) =>
              h("td", {}, q < 0 || k < 0 ? "…" : number(values[q][k] === null ? -Infinity : values[q][k])),
            ),
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
