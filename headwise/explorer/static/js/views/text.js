// @ts-check
/** The tokens of both sides, tinted by what the chosen query attends to, or by what attends to the chosen key. */

import { fill, h } from "../dom.js";
import { effect } from "../store.js";
import { cut, number, percent, shown } from "../core/text.js";
import * as ends from "./ends.js";
import { chosen } from "./heat.js";
import * as legend from "./legend.js";
import * as state from "../state.js";
import { learn, phrase, t } from "../strings.js";
import { tint } from "./tint.js";
import { toolbar } from "./toolbar.js";
import { WORDS } from "../words/text.js";
import { sidesOf } from "../titles.js";

learn(WORDS);

/** Up to how many letters of both sides these have so many pixels. */
const LETTERS = /** @type {[number, number][]} */ ([
  [60, 34],
  [100, 26],
  [220, 20],
]);
/** Tokens of a side beyond which it is scrolled. */
const MANY = 120;
/** Letters of the token that is named below another one. */
const NAMED = 10;

/** What the tints are of: a query (-1) or a key that is looked at. @param {import("./heat.js").Head} head */
export function tinted(head) {
  const at = state.hovered.value || chosen(head);
  const byKey = at.q < 0 ? at.k >= 0 : state.direction.value === "keys" && at.k >= 0 && !state.hovered.value;
  return byKey ? { q: -1, k: at.k } : { q: at.q, k: -1 };
}

/** @param {HTMLElement} place @param {import("./heat.js").Head} head @returns {() => void} */
export function mount(place, head) {
  const { weights, group } = head;
  const columns = group.keys.length;
  const { queries, keys, end: unmark } = ends.mount(head, "behind");
  const [names, sentence, bar] = [sidesOf(group), h("p", { class: "legend" }), h("div")];
  // few tokens are as large as a figure
  const letters = [...group.queries, ...group.keys].join(" ").length;
  const size = LETTERS.find(([most]) => letters <= most);
  place.style.setProperty("--letters", size ? `${size[1]}px` : "");
  place.append(
    directions(),
    h("p", { class: "side" }, t(names.from)),
    h("div", { class: "tokens with-shares" }, queries),
    h("p", { class: "side" }, t(names.to)),
    h("div", { class: "tokens with-shares" }, keys),
    // below the tokens, so that these do not move while it changes
    sentence,
    bar,
  );
  for (const side of place.querySelectorAll(".with-shares"))
    side.classList.toggle("many", side.childElementCount > MANY);
  const explain = legend.mount(bar);
  /** The label of the largest of some weights, and how much that is. */
  const largest = (/** @type {string[]} */ labels, /** @type {number} */ from, /** @type {number} */ step) => {
    const most = mostOf(weights, from, labels.length, step);
    return `${cut(labels[most], NAMED)} ${percent(Math.max(0, weights[from + most * step]), 0)}`;
  };
  const end = [
    unmark,
    effect(() => explain(legend.shading({ weights }), weights, false)),
    effect(() => {
      const { q, k } = tinted(head);
      const put = (/** @type {HTMLElement} */ node, /** @type {number | null} */ weight, /** @type {number} */ at) => {
        if (weight === null) node.removeAttribute("style");
        else tint(node, weight, top);
        const position = node.closest(".many") ? `${node.textContent} (${at + 1}) ` : "";
        node.title = weight === null ? position : position + number(weight);
        node.dataset.share = weight === null ? "" : percent(weight, 1);
      };
      const top = largestOf(weights);
      let sum = 0;
      queries.forEach((node, at) => {
        node.toggleAttribute("data-looked", at === q);
        if (k >= 0) sum += weights[at * columns + k];
        put(node, k < 0 ? null : weights[at * columns + k], at);
        if (k < 0) node.dataset.share = `→ ${largest(group.keys, at * columns, 1)}`;
      });
      keys.forEach((node, at) => {
        node.toggleAttribute("data-looked", at === k);
        put(node, q < 0 ? null : weights[q * columns + at], at);
        if (q < 0) node.dataset.share = `← ${largest(group.queries, at, columns)}`;
      });
      const strong = (/** @type {string} */ label) => h("strong", {}, h("bdi", {}, shown(label)));
      if (q >= 0) fill(sentence, phrase("tint_row", strong(group.queries[q])));
      else if (k >= 0)
        fill(sentence, phrase("tint_column", strong(group.keys[k]), percent(sum / group.queries.length, 1)));
    }),
  ];
  return () => end.forEach((one) => one());
}

/** Both directions by one control. */
function directions() {
  const names = ["", "keys"];
  const button = (/** @type {string} */ name) =>
    h(
      "button",
      {
        class: () => (state.direction.value === name ? "tab chosen" : "tab"),
        "aria-pressed": () => String(state.direction.value === name),
        onclick: () => (state.direction.value = name),
      },
      t(name ? "direction_keys" : "direction_queries"),
    );
  return toolbar(() => t("direction"), "tabs", h("span", { class: "seg" }, names.map(button)));
}

/**
 * Where the largest of some numbers is.
 * @param {Float32Array} weights @param {number} from where they begin @param {number} count @param {number} step
 */
function mostOf(weights, from, count, step) {
  let most = 0;
  for (let at = 1; at < count; at += 1) if (weights[from + at * step] > weights[from + most * step]) most = at;
  return most;
}

/** @param {Float32Array} weights */
const largestOf = (weights) => weights.reduce((most, weight) => Math.max(most, weight), 0);
