// @ts-check
/** The answers of two sides with the metrics of both, what their recipes differ in, and a row of each as bars. */

import { getJson, query } from "../api.js";
import { cut, percent, shown } from "../core/text.js";
import { fill, h } from "../dom.js";
import { effect } from "../store.js";
import * as state from "../state.js";
import { named, phrase, t } from "../strings.js";
import { metric } from "./run_card.js";

/** @typedef {{ trace: state.Trace, group: state.Group }} Placed */
/** @typedef {{ metrics: Record<string, number>, settings: Record<string, any> }} Card */

/** Metrics beside an answer, and letters of a label, at most. */
const [METRICS, LETTERS] = [4, 16];

/** The card of a run, without its inputs. @param {string} model @returns {Promise<Card>} */
const cardOf = (model) => getJson(`/api/v1/cards?${query({ model, inputs: "false" })}`);

/**
 * @param {HTMLElement} place @param {Placed} a @param {Placed} b
 * @returns {() => void}
 */
export function mount(place, a, b) {
  let alive = true;
  const draw = (/** @type {Card[]} */ cards) => alive && fill(place, table([a, b], cards), differing(a, b, cards));
  draw([]);
  Promise.all([a, b].map(({ trace }) => cardOf(trace.model))).then(draw, () => {});
  return () => {
    alive = false;
  };
}

/** @param {Placed[]} sides @param {Card[]} cards */
function table(sides, cards) {
  const names = cards.length
    ? Object.keys(cards[0].metrics)
        .filter((name) => name in cards[1].metrics)
        .slice(-METRICS)
    : [];
  const head = ["", t("answer"), ...names.map((name) => named("metric", name))];
  const row = (/** @type {Placed} */ { trace }, /** @type {number} */ at) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", class: `side-${at}` }, `${"AB"[at]} `, h("bdi", {}, trace.model)),
      h("td", {}, h("bdi", {}, shown(trace.output).replaceAll("␣", " "))),
      names.map((name) => h("td", { class: "number" }, metric(name, cards[at].metrics[name]))),
    );
  return h(
    "div",
    { class: "scrolls", tabindex: 0 },
    h(
      "table",
      { class: "answers" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((text, at) => h(text ? "th" : "td", { class: at > 1 ? "number" : null }, text)),
        ),
      ),
      h("tbody", {}, sides.map(row)),
    ),
  );
}

/** @param {Placed} a @param {Placed} b @param {Card[]} cards */
function differing(a, b, [one, two]) {
  if (a.trace.model === b.trace.model || !one) return null;
  const keys = [...new Set([...Object.keys(one.settings), ...Object.keys(two.settings)])];
  const value = (/** @type {Card} */ card, /** @type {string} */ key) => String(card.settings[key] ?? t("its_default"));
  const changed = keys.filter((key) => value(one, key) !== value(two, key));
  return [
    h(
      "p",
      { class: "side" },
      changed.length ? `${t("differ_in")} ` : t("differ_not"),
      changed
        .map((key, at) => [at ? ", " : "", h("code", {}, `${key} = ${value(one, key)} → ${value(two, key)}`)])
        .flat(),
    ),
    h("p", { class: "note" }, t("one_seed")),
  ];
}

/**
 * The row of both that is looked at, a pair of bars for each key.
 * @param {HTMLElement} place @param {state.Group} group @param {ArrayLike<number>[]} sides weights of each
 * @param {{ q: number, k: number }} begins the cell that is read before one is looked at
 * @returns {() => void}
 */
export function rows(place, group, sides, begins) {
  const columns = group.keys.length;
  return effect(() => {
    const { q, k } = state.hovered.value || begins;
    const label = (/** @type {string} */ token) => h("bdi", {}, cut(token, LETTERS));
    const values = sides.map((side) =>
      Array.from({ length: columns }, (_, key) => Math.max(0, side[q * columns + key])),
    );
    const order = group.keys.map((_, key) => key);
    const most = order
      .sort((one, two) => Math.max(...values.map((row) => row[two])) - Math.max(...values.map((row) => row[one])))
      .slice(0, BARS)
      .sort((one, two) => one - two);
    const bar = (/** @type {number} */ key, /** @type {number} */ side) => {
      const line = h("span", { class: `track side-${side}` });
      line.style.width = `${Math.max(0.5, 100 * values[side][key])}%`;
      return [h("span", {}, line), h("span", { class: `number side-${side}` }, percent(values[side][key], 1))];
    };
    const line = (/** @type {number} */ key) =>
      h(
        "div",
        { class: key === k ? "on" : null },
        label(group.keys[key]),
        h(
          "div",
          { class: "two" },
          [0, 1].map((side) => h("div", {}, bar(key, side))),
        ),
      );
    fill(place, h("h2", {}, phrase("row_of", label(group.queries[q]))), h("div", { class: "pairs" }, most.map(line)));
    if (columns > BARS) place.append(h("p", { class: "legend" }, t("largest_of", BARS, columns)));
  });
}

/** Keys of a row at most, those with the largest weights. */
const BARS = 12;

/** How many cells hold exactly nothing, of those that a mask allows. @param {ArrayLike<number>} marked */
export function zeros(marked) {
  const open = Array.prototype.filter.call(marked, (value) => value !== -Infinity);
  return t("exact_zeros", percent(open.filter((value) => value === 0).length / Math.max(1, open.length), 1));
}
