// @ts-check
/** The thread of steps, the matrices of the open one, and the number that is worked in it. */

import { placesOf, short, significant, weight } from "../core/digits.js";
import { formula } from "../core/formula.js";
import { cellOf, chosenStep, linkOf, ofPairs, placeOf } from "../core/steps.js";
import { cut, percent } from "../core/text.js";
import { h } from "../dom.js";
import { batch } from "../store.js";
import * as state from "../state.js";
import { sentences, t } from "../strings.js";
import { matrix } from "./matrix.js";
import { toolbar } from "./toolbar.js";
import {
  KINDS,
  LETTERS,
  choosePlace,
  headWidth,
  isTextbook,
  labels,
  open,
  openLink,
  place,
  play,
  playing,
  step,
} from "./tracing.js";
import { worked } from "./worked.js";

/** @typedef {import("../core/steps.js").Steps} Steps */
/** @typedef {import("../core/steps.js").Step} Step */
/** @typedef {import("../core/steps.js").Link} Link */
/** @typedef {import("../core/steps.js").Place} Place */

/** Columns, and keys, of which the numbers are shown at once. */
const [NARROW, SQUARE] = [8, 14];
/** Pixels of a screen on which more keys than so many have one decimal less. */
const [SMALL, FEW] = [700, 5];

/** The thread. @param {Steps} all */
export function chips(all) {
  const now = place(all);
  const { links, at } = openLink(all, now);
  return links.map((link, number) => chip(all, link, number, number === at, now));
}

/** The matrices of the open step; they follow the place by themselves. @param {Steps} all @param {HTMLElement} panel */
export function matricesOf(all, panel) {
  const { links, at, link } = openLink(all, place(all, true));
  // weighted values, and steps of three axes, are those of one query
  const now = place(all, link.id !== "mix" && !link.steps.some((step) => step.planes));
  panel.setAttribute("aria-label", title(all, link));
  return [
    h(
      "div",
      { class: "row-of lead" },
      h("p", {}, lead(all, link, now), h("span", { class: "convention" }, formulas(link))),
      tools(all, link, at, links.length),
    ),
    h("div", { class: state.vectors.value ? "matrices across" : "matrices" }, matrices(all, link, now)),
  ];
}

/** @param {Steps} all */
export function oneNumber(all) {
  const now = place(all);
  const { link } = openLink(all, now);
  if (!link.steps.length) return unchanged(all, link, now);
  const step = chosenStep(link, state.matrix.value);
  const [row, column] = cellOf(step, now);
  return worked({ steps: all, step, row, column, k: now.k, choose: choosePlace });
}

/** @param {Steps} all */
export function exactness({ difference, by }) {
  const exact = by.output && by.output.working && by.output.working.rule === "mix";
  if (!exact) return t("as_recorded");
  if (difference >= 1e-5) return t("inexact", significant(difference, 2));
  // the worked example is of no model
  return sentences(t("exact_terms"), isTextbook() ? "" : t("exact", significant(difference, 2)));
}

/** The number of a link that changes nothing. @param {Steps} all @param {Link} link @param {Place} now */
function unchanged(all, link, now) {
  const [row, column] = cellOf(link.before[0], now);
  const words = t(`${link.id}_none`, short(link.before[0].values[row][column]));
  return [h("div", { class: "formula" }, h("span", { class: "number" }, words))];
}

/** @param {Steps} all @param {Link} link */
function title({ by }, link) {
  const [step] = link.steps;
  if (link.id === "weights" && step.working && step.working.rule === "normalizer")
    return step.working.numbers.name
      .replace(/_/g, " ")
      .replace(/^./, (/** @type {string} */ first) => first.toUpperCase());
  if (link.id === "score" && ruleOf(step) === "dot" && !by["query features"]) return t("link_products");
  return t(`link_${link.id}`) === `link_${link.id}` ? link.id : t(`link_${link.id}`);
}

/** The number of a link in the thread. @param {Steps} all @param {Link} link @param {Place} now */
function valueOf(all, link, now) {
  const { by } = all;
  if (link.id === "input") return t("count_numbers", by.input.shape[1]);
  if (["project", "norm", "turn", "features"].includes(link.id))
    return link.steps.map(({ shape }) => shape[1]).join(" + ");
  if (!link.steps.length) return t(link.id === "scale" ? "off" : "nothing");
  const step = link.id === "mix" ? null : chosenStep(link, "");
  if (!step) return `${weight(by[/** @type {any} */ (by.output.working).of[0]].values[now.q][now.k])} · v`;
  const [row, column] = cellOf(step, now);
  const value = step.values[row][column];
  if (link.id === "mask" && value > -Infinity) return t("allowed");
  return ["weights", "changed"].includes(link.id) && value >= 0 && value <= 1 ? percent(value, 1) : short(value);
}

/** @param {Steps} all @param {Link} link @param {number} number @param {boolean} on @param {Place} now */
const chip = (all, link, number, on, now) =>
  h(
    "button",
    {
      role: "tab",
      "aria-selected": String(on),
      "aria-controls": on ? "open-step" : null,
      tabindex: on ? 0 : -1,
      "data-at": on ? "thread" : null,
      onclick: () => open(link.id),
    },
    h("span", { class: "name" }, `${number + 1} ${title(all, link)}`),
    h("span", { class: "value" }, valueOf(all, link, now)),
  );

/** What happens in a step, in words. @param {Steps} all @param {Link} link @param {Place} now */
function lead(all, link, now) {
  const [step] = link.steps.slice(-1);
  const width = headWidth(all);
  const values = [all.queries[now.q], width, significant(Math.sqrt(width)), all.keys[now.k]];
  const kind = link.id === "weights" && step.working ? /** @type {any} */ (step.working).numbers.name : "";
  const names = [
    step ? `lead_${link.id}_${kind ? kind.split(":")[0] : ruleOf(step)}` : `lead_${link.id}_none`,
    `lead_${link.id}`,
  ];
  const name = names.find((candidate) => t(candidate) !== candidate);
  if (name) return t(name, ...values.map((value) => cut(String(value), LETTERS)));
  return step.text;
}

/** How a link is written, with vectors as rows or as columns. @param {Link} link */
const formulas = ({ steps }) =>
  steps.map((step) => formula((state.vectors.value && step.columns) || step.formula)).flatMap((one) => [one, " "]);

/** @param {Step} step */
const ruleOf = ({ working }) => (!working ? "" : working.numbers.slope === undefined ? working.rule : "leaky");

/** Whether a step has more columns than are read at once. @param {Step} step */
const isWide = (step) => step.shape[1] > (ofPairs(step) ? SQUARE : NARROW);

/** Back, play, next; all numbers. @param {Steps} all @param {Link} link @param {number} at @param {number} count */
function tools(all, link, at, count) {
  const wide = [...link.before, ...link.steps].filter(isWide);
  const columns = Math.max(0, ...wide.map(({ shape }) => shape[1]));
  const every = Boolean(state.numbers.value);
  const button = (/** @type {string} */ name, /** @type {string} */ words, /** @type {() => void} */ work, more = {}) =>
    h("button", { "data-at": name, onclick: work, ...more }, words);
  return toolbar(
    () => t("thread"),
    "controls",
    columns
      ? button(
          "numbers",
          every ? t("colours_only") : t("all_numbers", columns),
          () => (state.numbers.value = every ? "" : "1"),
          { "aria-pressed": String(every) },
        )
      : null,
    button("vectors", t("vectors_columns"), () => (state.vectors.value = state.vectors.value ? "" : "1"), {
      "aria-pressed": String(Boolean(state.vectors.value)),
    }),
    button("back", `← ${t("step_back")}`, () => step(-1), { "aria-disabled": at === 0 ? "true" : null }),
    button("play", playing.value ? t("pause") : `▶ ${t("play")}`, play, { class: "main" }),
    button("forward", `${t("step_on")} →`, () => step(1), { "aria-disabled": at === count - 1 ? "true" : null }),
  );
}

/** The matrices of a link, with signs between them. @param {Steps} all @param {Link} link @param {Place} now */
function matrices(all, link, now) {
  const sign = (/** @type {string} */ text) => h("span", { class: "sign", "aria-hidden": "true" }, text);
  const draw = (/** @type {Step[]} */ some, /** @type {boolean} */ own) =>
    some.map((step) => drawMatrix(all, link, step, now, own));
  const [before, after] = [draw(link.before, false), draw(link.steps, true)];
  const stacked = (/** @type {HTMLElement[]} */ nodes) =>
    nodes.length > 1 ? h("div", { class: "stacked" }, nodes) : nodes;
  if (!before.length) return after.length > 3 ? stacked(after) : after;
  if (!after.length) return before;
  const rule = ruleOf(link.steps[link.steps.length - 1]);
  // K⊤ Q is written with the keys first, V A with the values
  if (state.vectors.value && (rule === "dot" || rule === "mix")) before.reverse();
  const width = /** @type {any} */ (link.steps[0].working || { numbers: {} }).numbers.divisor;
  const between = /** @type {Record<string, string>} */ ({
    dot: "q·k =",
    quotient: link.id === "scale" ? `÷ √${headWidth(all)}` : `÷ ${significant(width || 1, 3)}`,
    sum: "+",
  })[rule];
  return [stacked(before), sign(between || "→"), stacked(after)].flat();
}

/**
 * `own`: whether the link makes it.
 * @param {Steps} all @param {Link} link @param {Step} step @param {Place} now @param {boolean} own
 */
function drawMatrix(all, link, step, now, own) {
  const { axes, shape, name } = step;
  const columns = Boolean(state.vectors.value);
  const pairs = ofPairs(step);
  const rows = labels(all, axes[0], shape[0]);
  const weighted = link.id === "mix" && own;
  const of = weighted ? all.by[/** @type {any} */ (all.by.output.working).of[0]] : null;
  const marks = () => {
    const here = own && (link.steps.length === 1 || step === chosenStep(link, state.matrix.value));
    const [row, column] = cellOf(step, place(all));
    const on = pairs || here || link.id === "mix";
    return columns ? { at: [column, row], on, down: true, line: weighted } : { at: [row, column], on, down: weighted };
  };
  const family = name.split(" ").pop() || "";
  const first = name === "joined" ? /** @type {any} */ (step.working).numbers.first : 0;
  const last = first + headWidth(all);
  const words = name === "joined" ? [first + 1, last] : [all.queries[now.q]];
  const text = t(`what_${name}`) === `what_${name}` ? step.text : t(`what_${name}`, ...words);
  const choose = (/** @type {number} */ i, /** @type {number} */ j) => {
    // a number of another step is worked where it is made
    const elsewhere = !own && !pairs ? linkOf(step) : "";
    batch(() => {
      choosePlace(placeOf(step, i, j));
      if (own) state.matrix.value = name;
      if (elsewhere && link.id !== "mix") open(elsewhere, name);
    });
  };
  const labelled = of
    ? rows.map((word, at) => `${weight(of.values[now.q][at]).replace("·", "<.001")}\u00a0${word}`)
    : rows;
  const across = labels(all, axes[1], shape[1]);
  const turned = (/** @type {((i: number, j: number) => void) | undefined} */ work) =>
    work && columns ? (/** @type {number} */ i, /** @type {number} */ j) => work(j, i) : work;
  return matrix({
    name,
    symbol: step.symbol,
    kind: KINDS[family],
    text,
    values: columns ? across.map((_, at) => step.values.map((row) => row[at])) : step.values,
    rows: columns ? across : labelled,
    columns: columns ? labelled : axes[1] === "queries" || axes[1] === "keys" ? across : null,
    kinds: (columns ? [axes[1], axes[0]] : axes).map((axis) => KINDS[axis]),
    others: name === "joined" ? (i, j) => (columns ? i < first || i >= last : j < first || j >= last) : undefined,
    places: Math.max(0, placesOf(step.values) - Number(innerWidth < SMALL && pairs && shape[1] > FEW)),
    marks,
    share: /weights$/.test(name),
    bare: isWide(step) && !state.numbers.value,
    pick: /** @type {typeof choose} */ (turned(choose)),
    move: turned(own || pairs ? undefined : (i, j) => choosePlace(placeOf(step, i, j))),
  });
}
