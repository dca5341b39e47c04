// @ts-check
/** How a number is made that is no sum of products: its line, and a row for each key. */

import { fixed, placesOf, short, significant, weight } from "../core/digits.js";
import { formula } from "../core/formula.js";
import { normalized } from "../core/normalizing.js";
import { h } from "../dom.js";
import { t } from "../strings.js";
import { bracketed, fraction, label, letter, own, plain, result, sources, valueOf } from "./worked_parts.js";
import { tableOf } from "./table.js";

/** @typedef {import("./worked_parts.js").Target} Target */
/** Terms that stand in the formula itself. */
const SUMMANDS = 7;

/** @param {Target} number */
export function ruled(number) {
  const { working } = number.step;
  return (working && RULES[working.rule]?.(number)) || stated(number);
}

/** @type {Record<string, (number: Target) => { line: any[], terms?: any } | null>} */
const RULES = {
  quotient: (number) => {
    const [{ values }] = sources(number);
    const { divisor } = /** @type {any} */ (number.step.working).numbers;
    const above = short(values[number.row][number.column]);
    const below =
      number.step.name === "scaled" ? [fraction(plain(above), plain(`√${Math.round(divisor ** 2)}`)), " = "] : [];
    const value = result(short(valueOf(number)));
    return {
      line: [own(number), " = ", below, fraction(plain(above), plain(significant(divisor))), " = ", value].flat(3),
    };
  },
  product: (number) => joined(number, " × "),
  sum: (number) => joined(number, " + "),
  mask: (number) => {
    const hidden = valueOf(number) === -Infinity;
    const [q, k] = [label(number, 0, number.row), label(number, 1, number.column)];
    const words = hidden ? t("mask_hides", q, k) : t("mask_allows");
    return { line: [own(number), " = ", plain(words), " ", result(short(valueOf(number)))].flat() };
  },
  normalizer: shared,
  share: shared,
  mix: mixed,
  weighted,
  norm: (number) => {
    const [{ values }] = sources(number);
    const { gain, shift, eps, mean } = /** @type {any} */ (number.step.working).numbers;
    const row = values[number.row];
    const average = mean ? row.reduce((sum, number) => sum + number, 0) / row.length : 0;
    const variance = row.reduce((sum, number) => sum + (number - average) ** 2, 0) / row.length;
    const above = mean ? `${short(row[number.column])} − ${bracketed(average)}` : short(row[number.column]);
    const by = [" × ", plain(bracketed(gain[number.column]))];
    const plus = shift[number.column] ? [" + ", plain(bracketed(shift[number.column]))] : [];
    const below = plain(`√(${significant(variance)} + ${significant(eps, 1)})`);
    const line = [own(number), " = ", fraction(plain(above), below), by, plus, " = ", result(short(valueOf(number)))];
    return { line: line.flat(2), terms: h("p", { class: "note" }, t(mean ? "norm_mean" : "norm_square", row.length)) };
  },
  join: (number) => {
    const [{ values }] = sources(number);
    const at = number.column - /** @type {any} */ (number.step.working).numbers.first;
    const inside = at >= 0 && at < values[0].length;
    const words = inside ? t("join_own", at + 1) : t("join_other");
    return { line: [own(number), " = ", plain(words), " ", result(short(valueOf(number)))].flat() };
  },
};

/** What is added or multiplied, one number of each step. @param {Target} number @param {string} sign */
function joined(number, sign) {
  const parts = sources(number).flatMap((step, at) => [
    at ? sign : "",
    plain(at ? bracketed(step.values[number.row][number.column]) : short(step.values[number.row][number.column])),
  ]);
  return { line: [own(number), " = ", parts, " = ", result(short(valueOf(number)))].flat(2) };
}

/** Where the way to a number is not known term by term: the formula, and what it is of. @param {Target} number */
function stated(number) {
  const { step } = number;
  const operands = sources(number).filter(Boolean);
  const line = [own(number), " = ", result(short(valueOf(number)))].flat();
  if (/^(input|memory)$/.test(step.name)) return { line, terms: h("p", { class: "note" }, t("is_given")) };
  if (!operands.length) return { line };
  const rows = operands.map((operand) => {
    const at =
      operand.axes[0] === step.axes[0] ? number.row : operand.axes[0] === step.axes[1] ? number.column : number.row;
    const place = Math.min(at, operand.values.length - 1);
    const places = placesOf(operand.values);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, h("i", {}, operand.symbol), " ", label({ ...number, step: operand }, 0, place)),
      operand.values[place].map((value) => h("td", {}, fixed(value, places))),
    );
  });
  const terms = scrolls(h("table", { class: "operands" }, h("caption", {}, t("no_terms")), h("tbody", {}, rows)));
  return { line: [...line, formula(step.formula)], terms };
}

/** @param {any} node */
const scrolls = (node) =>
  h("div", { class: "scrolls", "data-of": "terms", tabindex: 0, role: "group", "aria-label": t("terms") }, node);

/** A weight: its score among those of the row. @param {Target} number */
function shared(number) {
  const { step, row, column } = number;
  const [{ values, symbol }] = sources(number);
  const { rule, numbers } = /** @type {any} */ (step.working);
  const [scores, weights] = [values[row], step.values[row]];
  if (rule === "share") return divided(number, scores, numbers.reach);
  const way = normalized(numbers.name, scores, weights);
  if (!way) return null;
  const kind = numbers.name.split(":")[0];
  const { sum, top } = way;
  const hidden = scores[column] === -Infinity;
  const power = way.columns.find(([name]) => name === "power");
  const value = result(hidden || weights[column] === 0 ? "0" : significant(weights[column], 6));
  let middle = /** @type {any[]} */ ([plain(t(`rule_${kind}`, short(scores[column]), significant(top), sum))]);
  if (power) {
    const powers = power[1].filter((number) => number > 0).map((number) => significant(number, 3));
    const spelled = powers.slice(0, SUMMANDS).join(" + ") + (powers.length > SUMMANDS ? " + …" : "");
    const extra = way.extra ? `${significant(way.extra, 3)} + ` : "";
    const above = hidden ? "exp(−∞)" : `exp(${short(scores[column])} − ${bracketed(top)})`;
    const shares = fraction(plain(significant(power[1][column], 5)), plain(significant(sum, 5)));
    middle = [fraction(plain(above), plain(extra + spelled)), " = ", shares];
  }
  const columns = /** @type {[string, number[], boolean][]} */ ([["score", scores, false], ...way.columns]);
  const heads = columns.map(([name]) =>
    name === "score" ? `${t("score")} ${symbol.toLowerCase()}` : t(`way_${name}`),
  );
  const totals = columns.map(([name, all, adds]) =>
    adds ? (name === "power" ? sum : all.reduce((sum, number) => sum + number, 0)) : null,
  );
  const line = [own(number), " = ", middle, " = ", value].flat(2);
  return {
    line,
    terms: rowTable(
      number,
      heads,
      columns.map(([, all]) => all),
      totals,
      t("sum"),
    ),
  };
}

/** A share of a row of products. @param {Target} number @param {number[]} products @param {number | undefined} reach */
function divided(number, products, reach) {
  const end = reach === undefined ? products.length : number.row + reach + 1;
  const counted = products.map((product, k) => (k < end ? product : 0));
  const sum = counted.reduce((sum, number) => sum + number, 0);
  const above = plain(significant(counted[number.column], 5));
  const weights = number.step.values[number.row];
  const line = [
    own(number),
    " = ",
    fraction(above, plain(significant(sum, 5))),
    " = ",
    result(significant(valueOf(number), 6)),
  ];
  const heads = [t("way_product"), t("way_by_sum")];
  const note = reach === undefined ? null : h("p", { class: "note" }, t("reach"));
  const terms = rowTable(
    number,
    heads,
    [counted, weights],
    [sum, weights.reduce((sum, number) => sum + number, 0)],
    t("sum"),
  );
  return { line: line.flat(), terms: [note, terms] };
}

/** @param {Target} number */
function mixed(number) {
  const { step, row, column } = number;
  const [weights, values] = sources(number);
  const shares = weights.values[row];
  const numbers = values.values.slice(0, shares.length).map((vector) => vector[column]);
  const products = shares.map((share, k) => share * numbers[k]);
  // NaN where it is asked for
  let sum = 0 * step.values[row][column];
  const sums = products.map((product) => (sum += product));
  const places = placesOf(values.values);
  const terms = shares
    .slice(0, SUMMANDS)
    .flatMap((share, k) => [
      k ? " + " : "",
      h(
        "span",
        { class: "whole" },
        plain(weight(share) === "·" ? "<.001" : weight(share)),
        "(",
        h("span", { class: "number of-value" }, fixed(numbers[k], places)),
        ")",
      ),
    ]);
  const line = [
    own(number),
    " = Σ ",
    letter("a"),
    " ",
    letter("v"),
    " = ",
    terms,
    shares.length > SUMMANDS ? " + …" : "",
  ];
  const heads = [t("way_weight"), t("way_value", column + 1), "a × v", t("way_so_far")];
  const total = [shares.reduce((sum, number) => sum + number, 0), null, step.values[row][column], null];
  const table = rowTable(
    { ...number, step: { ...step, axes: ["queries", "keys"] } },
    heads,
    [shares, numbers, products, sums],
    total,
    t("output"),
  );
  return { line: [...line, " = ", result(significant(step.values[row][column], 7))].flat(2), terms: table };
}

/** @param {Target} number */
function weighted(number) {
  const { step, row, column } = number;
  const [weights, values] = sources(number);
  const shares = weights.values[/** @type {any} */ (step.working).numbers.q];
  const numbers = values.values.map((vector) => vector[column]);
  const factor = { ...number, step: values };
  const line = [
    letter("a", label(factor, 0, row)),
    " ",
    own(factor),
    " = ",
    plain(significant(shares[row])),
    " × ",
    h("span", { class: "number of-value" }, bracketed(numbers[row])),
    " = ",
    result(short(valueOf(number))),
  ];
  const heads = [t("way_weight"), t("way_value", column + 1), "a × v"];
  const products = step.values.map((vector) => vector[column]);
  const pairs = { ...number, step: { ...step, axes: ["queries", "keys"] } };
  return { line: line.flat(), terms: rowTable(pairs, heads, [shares, numbers, products]) };
}

/**
 * A line for each key.
 * @param {Target} number @param {string[]} heads @param {number[][]} columns
 * @param {(number | null)[]} [totals] @param {string} [name] of the last line
 */
function rowTable(number, heads, columns, totals, name) {
  const line = (/** @type {number} */ k) => {
    const node = h(
      "tr",
      { class: k === number.k ? "on" : null },
      h("th", { scope: "row" }, h("bdi", {}, label(number, 1, k))),
      columns.map((all, at) =>
        h("td", { class: heads[at] === t("way_value", number.column + 1) ? "of-value" : null }, written(all[k], all)),
      ),
    );
    node.addEventListener("click", () => number.choose({ k }));
    return node;
  };
  const foot =
    totals &&
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name),
      totals.map((total) => h("td", {}, total === null ? "" : written(total, [total]))),
    );
  const table = tableOf(
    { class: "row-of-keys" },
    [t("key"), ...heads],
    columns[0].map((_, k) => line(k)),
  );
  if (foot) table.append(h("tfoot", {}, foot));
  return scrolls(table);
}

/** Decimals as there is room, none for whole numbers. @param {number} value @param {number[]} all */
function written(value, all) {
  if (all.every((number) => Number.isInteger(number) || number === -Infinity)) return short(value);
  const less = innerWidth < 700 ? 2 : 0;
  const places = (all.some((number) => Math.abs(number) >= 10 && number > -Infinity) ? 4 : 6) - less;
  return Math.abs(value) < Math.max(1e-4, 5 * 10 ** -places) ? significant(value, 3) : fixed(value, places);
}
