// @ts-check
/** A window of the tokens of a large head, tinted by the weights of one row; the others are reached by buttons. */

import { largestAt } from "../core/heatmap.js";
import { apart, cut, number, percent } from "../core/text.js";
import { fill, h, strong } from "../dom.js";
import { effect } from "../store.js";
import * as state from "../state.js";
import { phrase, t } from "../strings.js";
import { headName, sidesOf } from "../titles.js";
import * as ends from "./ends.js";
import * as legend from "./legend.js";
import { percentage, shareOf } from "./text.js";
import { tint } from "./tint.js";
import { toolbar } from "./toolbar.js";

/** Tokens of a window, and on a screen of at most so many pixels. */
const [TOKENS, FEW, NARROW] = [120, 48, 760];
/** Letters of a token in a sentence. */
const LETTERS = 16;

/**
 * @typedef {import("./links.js").Heads} Heads
 * @typedef {{ group: state.Group, q: number, weights: Float32Array, head: number, press: (k: number) => void }} Row
 * `weights`: minus infinity where a pair is forbidden; `press`: on a key, or -1 on the query
 */

/** @typedef {Row & { largest: number, count: number }} Full with the key of the largest weight, and keys up to the last
 * that the mask allows */

/**
 * The first token of a window: it holds the chosen key, else ends with the query or has it in its middle; the one
 * before stays where it does as well.
 * @param {Full} row @param {number} size @param {number} before -1 for none
 */
function firstOf({ group, q, largest, count }, size, before) {
  const key = state.key.peek();
  const at = key >= 0 ? key : state.oneSequence(group) ? q : largest;
  const reach = group.causal && key < 0 ? size - 1 : Math.floor(size / 2);
  const least = before + (group.causal && key < 0 ? size / 2 : 0);
  if (before >= 0 && at >= least && at < before + size) return before;
  return Math.max(0, Math.min(count - size, at - reach));
}

/** The tokens of a window; its keys are tinted by their weights. @param {HTMLElement} body @param {Heads} head */
function drawn(body, head) {
  const { weights, top = 0 } = head;
  const { queries, keys, end } = ends.mount(head, "behind", head.part);
  const [names, bar] = [sidesOf(head.group), h("div")];
  const side = (/** @type {string} */ name, /** @type {string} */ kind, /** @type {HTMLElement[]} */ tokens) => [
    h("p", { class: "side" }, t(name)),
    h("div", { class: kind }, tokens),
  ];
  body.append(
    h("p", { class: "note" }, t("direction_whole")),
    ...side(names.from, "tokens", queries),
    ...side(names.to, "tokens with-shares", keys),
    bar,
  );
  queries[0].dataset.looked = "";
  const explain = legend.mount(bar);
  const tinted = effect(() => {
    explain(legend.shading({ weights, top, write: percentage }), weights, false);
    keys.forEach((node, at) => {
      tint(node, weights[at], top);
      node.title = number(weights[at]);
      node.dataset.share = shareOf(weights[at]);
    });
  });
  return () => [end, tinted].forEach((stop) => stop());
}

/** @param {Full} row @param {number} from @param {number} size @param {string} title @returns {Heads} */
const windowOf = ({ group, q, weights, largest, press }, from, size, title) => ({
  title,
  weights: weights.subarray(from, from + size).map((weight) => Math.max(0, weight)),
  top: Math.max(0, weights[largest]),
  rows: [[q]],
  columns: Array.from({ length: size }, (_, k) => [from + k]),
  group: { ...group, queries: [group.queries[q]], keys: group.keys.slice(from, from + size) },
  part: { q: [q], k: Array.from({ length: size }, (_, k) => from + k) },
  press: (side, k) => press(side === "k" ? from + k : -1),
});

/**
 * @param {HTMLElement} place @param {Row} given @param {string} title
 * @param {{ from: number, head: Heads | null }} shown where the window begins, -1 before the first one, and its head
 */
export function mount(place, given, title, shown) {
  const { group, q, weights, head } = given;
  const [largest, count] = [largestAt(weights), weights.findLastIndex((weight) => weight > -Infinity) + 1];
  const row = { ...given, largest, count };
  const thousands = group.keys.length.toLocaleString("en");
  const size = Math.min(count, innerWidth > NARROW ? TOKENS : FEW);
  const sum = (/** @type {Float32Array} */ some) => some.reduce((all, weight) => all + Math.max(0, weight), 0);
  const [from, to] = [group.queries, group.keys].map((all) => apart(all, (label) => cut(label, LETTERS)));
  const [note, body] = [h("p", { class: "note", role: "status" }), h("div", { class: "of-part" })];
  let [end, alive] = [() => {}, true];
  const go = (/** @type {number} */ first) => {
    end();
    shown.from = first;
    shown.head = windowOf(row, shown.from, size, title);
    const share = sum(shown.head.weights) / (sum(weights) || 1);
    const name = strong(from(q));
    fill(
      note,
      phrase("row_text", name, headName(head), shown.from + 1, shown.from + size, thousands, percent(share, 0)),
    );
    // they stay in the order of the keyboard
    before.setAttribute("aria-disabled", String(shown.from === 0));
    after.setAttribute("aria-disabled", String(shown.from === count - size));
    fill(body);
    end = drawn(body, shown.head);
  };
  /** The window with a key in its middle, where it is out of sight. */
  const see = (/** @type {number} */ k) => {
    if (k < shown.from || k >= shown.from + size) go(firstOf(row, size, -1));
  };
  const by = (/** @type {number} */ tokens) => {
    const first = Math.max(0, Math.min(count - size, shown.from + tokens));
    if (first !== shown.from) go(first);
  };
  const button = (/** @type {any} */ words, /** @type {() => void} */ press) =>
    h("button", { class: "small", onclick: press }, words);
  const before = button(t("tokens_before"), () => by(-size));
  const after = button(t("tokens_after"), () => by(size));
  const most = button(phrase("to_largest", h("bdi", {}, to(largest)), percent(weights[largest], 1)), () => {
    state.lock({ q, k: largest });
    see(largest);
    body.querySelectorAll(".tokens")[1]?.children[largest - shown.from]?.scrollIntoView({ block: "nearest" });
  });
  place.append(
    note,
    toolbar(() => title, "controls", before, after, most),
    body,
  );
  go(firstOf(row, size, shown.from));
  const follow = effect(() => {
    const k = state.key.value;
    // drawn apart from this effect, which follows nothing but the key
    if (k >= 0) queueMicrotask(() => alive && see(k));
  });
  return () => {
    alive = false;
    follow();
    end();
  };
}
