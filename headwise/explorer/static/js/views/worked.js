// @ts-check
/** One number worked by hand: the formula with the numbers in it, and below it every term. */

import { colour, letters, signed } from "../core/color.js";
import { fixed, placesOf, short, significant } from "../core/digits.js";
import { factors } from "../core/steps.js";
import { h } from "../dom.js";
import * as state from "../state.js";
import { signal } from "../store.js";
import { t } from "../strings.js";
import { CLASSES, label, letter, own, plain, result, sources, symbolOf, valueOf } from "./worked_parts.js";

/** @typedef {import("./worked_parts.js").Target} Target */
/** Terms that stand in the formula itself; and what are sums of products. */
const [SPELLED, FEW] = [4, 4];
const SUMS = new Set(["linear", "dot", "additive", "rotation"]);
/** How the others are made, once it is asked for: the page opens on a product. */
const late = signal(/** @type {typeof import("./worked_rules.js") | null} */ (null));

/** @param {Target} number @returns {any[]} what stands in the frame */
export function worked(number) {
  const rule = number.step.working ? number.step.working.rule : "";
  const working = (SUMS.has(rule) && summed(number)) || others(number);
  if (!working) return [t("loading")];
  return [h("div", { class: "formula" }, working.line), ...[working.terms].flat()];
}

/** What is no sum of products; null until that has come. @param {Target} number */
function others(number) {
  if (late.value) return late.value.ruled(number);
  import("./worked_rules.js").then((rules) => (late.value = rules), state.failed);
  return null;
}

/** A sum of products. @param {Target} number */
function summed(number) {
  const { steps, step, row, column } = number;
  const products = factors(steps, step, row, column);
  if (!products) return null;
  const { left, right, more, factor } = products;
  const { rule, numbers } = /** @type {any} */ (step.working);
  const leaky = numbers.slope !== undefined;
  const [a, b] = sources(number);
  const bases = [a.values, rule === "dot" ? b.values : [right]].map(placesOf);
  const spelled = left.length > SPELLED ? SPELLED : left.length;
  const terms = left
    .slice(0, spelled)
    .flatMap((value, at) => [
      at ? " + " : "",
      h("span", { class: "whole" }, "(", plain(fixed(value, bases[0])), ")(", plain(fixed(right[at], bases[1])), ")"),
    ]);
  const of = label(number, 0, row);
  const vectors = {
    dot: () => [letter(symbolOf(a), of), " · ", letter(symbolOf(b), label(number, 1, column))],
    linear: () => [
      letter(symbolOf(a), of),
      " · ",
      letter("W", String(column + 1)),
      more ? [" + ", letter("b", String(column + 1))] : [],
    ],
    additive: () => {
      const [left, right] = [letter(symbolOf(a), of), letter(symbolOf(b), label(number, 1, column))];
      return [letter("v"), ` · ${leaky ? "LeakyReLU" : "tanh"}(`, left, " + ", right, ")"];
    },
    rotation: () => [
      letter(symbolOf(a), of, String(column + 1)),
      " cos + ",
      letter(symbolOf(a), of, String(numbers.partner[column] + 1)),
      " sin",
    ],
  }[/** @type {"dot"} */ (rule)]();
  const line = [
    rule === "dot" ? [] : [own(number), " = "],
    factor === 1 ? [] : [plain(significant(factor)), " · "],
    vectors,
    " = ",
    factor === 1 ? [] : [plain(significant(factor)), " · ("],
    terms,
    left.length > spelled ? t("more_terms", left.length) : "",
    more ? [" + ", plain(more < 0 ? `(${fixed(more, 4)})` : fixed(more, 4))] : [],
    factor === 1 ? [] : [")"],
    " = ",
    result(short(valueOf(number))),
  ];
  const classes = { dot: ["of-query", "of-key"], linear: ["", CLASSES[symbolOf(step)[0]] || ""] }[
    /** @type {"dot"} */ (rule)
  ];
  return {
    line: line.flat(4),
    terms: cards(left, right, bases, classes || ["", ""], t(leaky ? "factors_leaky" : `factors_${rule}`), more),
  };
}

/**
 * Every product as a card.
 * @param {number[]} left @param {number[]} right @param {number[]} bases @param {string[]} classes
 * @param {string} what @param {number} more
 */
function cards(left, right, bases, classes, what, more) {
  const sorted = state.sorted.value === "1";
  const products = left.map((value, at) => ({ at, value, other: right[at], product: value * right[at] }));
  const top = Math.max(...products.map(({ product }) => Math.abs(product)));
  const sum = (/** @type {number} */ sign) =>
    products.reduce((all, { product }) => (product * sign > 0 ? all + product : all), 0);
  if (sorted) products.sort((left, right) => Math.abs(right.product) - Math.abs(left.product));
  const name = state.dark.value ? "diverging dark" : "diverging";
  const places = Math.max(...bases) || 0;
  const card = (/** @type {typeof products[0]} */ factor) => {
    const [entry] = signed([factor.product], top, "sqrt");
    const product = h("span", { class: "product" }, fixed(factor.product, places));
    [product.style.background, product.style.color] = [colour(name, entry), letters(name, entry)];
    return h(
      "li",
      {
        title: `${significant(factor.value, 6)} × ${significant(factor.other, 6)} = ${significant(factor.product, 6)}`,
      },
      h("span", { class: "index" }, factor.at + 1),
      h("span", { class: classes[0] || null }, fixed(factor.value, bases[0])),
      h("span", { class: classes[1] || null }, `× ${fixed(factor.other, bases[1])}`),
      product,
    );
  };
  const order = h(
    "button",
    {
      "data-at": "sort",
      "aria-pressed": String(sorted),
      onclick: () => state.instead(() => (state.sorted.value = sorted ? "" : "1")),
    },
    t("largest_first"),
  );
  const rest = more ? ` ${t("and_bias", significant(more))}` : "";
  return h(
    "div",
    {},
    h(
      "div",
      { class: "row-of" },
      left.length > 1
        ? h("p", { class: "note" }, t("sums", left.length, what, short(sum(1)), short(sum(-1))) + rest)
        : null,
      left.length > FEW ? order : null,
    ),
    h("ol", { class: `terms${left.length > 8 ? "" : " few"}${places > 2 ? " long" : ""}` }, products.map(card)),
  );
}
