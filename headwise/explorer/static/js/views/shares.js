// @ts-check
/** A row of weights as bars, and what is measured of it. */

import { percent } from "../core/text.js";
import { h } from "../dom.js";
import { t } from "../strings.js";

/** Bars of a row at most, where nobody says how many. */
export const BARS = 7;

/**
 * The largest weights of a row as bars, one of them marked.
 * @param {(at: number) => any} label @param {number[]} row
 * @param {number[]} order the places of its weights, the largest first
 * @param {number} marked
 * @param {{ most?: number, full?: number, told?: (weight: number) => string, press?: (at: number) => void }} [how] bars
 * at most, a weight whose bar is full, how a weight reads, and what a click on its name does
 */
export const shares = (label, row, order, marked, { most = BARS, full = 1, told = inPercent, press } = {}) =>
  h(
    "div",
    { class: "shares" },
    order.slice(0, most).map((at) => {
      const name = press ? h("button", { class: "small link", onclick: () => press(at) }, label(at)) : label(at);
      return bar(name, row[at], at === marked, full, told);
    }),
  );

/** @param {number} weight */
const inPercent = (weight) => percent(weight, 1);

/**
 * @param {any} label @param {number} weight @param {boolean} on @param {number} full a weight whose bar is full
 * @param {(weight: number) => string} told
 */
function bar(label, weight, on, full, told) {
  const line = h("span", { class: "track" });
  line.style.width = `${Math.min(100, Math.max(0.5, (100 * Math.abs(weight)) / full))}%`;
  if (!weight) line.style.cssText = "width: 0; min-width: 0";
  return h("div", { class: on ? "on" : null }, h("bdi", {}, label), h("span", {}, line), h("span", {}, told(weight)));
}

/** How evenly a row is spread, where its weights are shares. @param {number[]} row */
export function measures(row) {
  const open = row.filter((weight) => weight > 0);
  if (!open.length || row.some((weight) => weight < 0 && weight > -Infinity)) return [];
  const sum = open.reduce((all, weight) => all + weight, 0);
  const entropy = -open.reduce((all, weight) => all + (weight / sum) * Math.log(weight / sum), 0);
  return [
    fact("entropy", `${entropy.toFixed(2)} ${t("nats")}`),
    fact("effective", Math.exp(entropy).toFixed(1)),
  ].flat();
}

/** @param {string} title @param {string} value */
export const fact = (title, value) => [h("dt", {}, t(title)), h("dd", {}, value)];
