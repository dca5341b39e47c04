// @ts-check
/** Home where no run is served: textbook examples, pages that need no run, and the commands that make one. */

import { contextOf } from "../core/canvas.js";
import { colour } from "../core/color.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/** The weights of the textbook's example of three inputs of four numbers. */
const BOOK = [
  [2, 4, 4],
  [4, 16, 12],
  [4, 12, 10],
].map((scores) => {
  const powers = scores.map((score) => Math.exp(score - Math.max(...scores)));
  return powers.map((power) => power / powers.reduce((sum, one) => sum + one, 0));
});
const POSITIONS = 12;
/** How alike two positions of a sinusoidal scheme of 16 columns are, from 0 to 1. */
const NEAR = Array.from({ length: POSITIONS }, (_, q) =>
  Array.from({ length: POSITIONS }, (_, k) => {
    const cosines = Array.from({ length: 8 }, (_, pair) => Math.cos((q - k) / 10000 ** (pair / 8)));
    return (cosines.reduce((sum, one) => sum + one, 0) / 8) ** 4;
  }),
);
const CAUSAL = Array.from({ length: 8 }, (_, q) =>
  Array.from({ length: 8 }, (_, k) => (k <= q && q - k < 4 ? 0.6 : 0)),
);

/** What makes a run, and where it lies then. @type {[string, string][]} */
const DEMOS = [
  ["make_translate", "translate"],
  ["make_language", "language-model"],
  ["make_classify", "classify"],
  ["make_image", "image-classify"],
];

/** @param {HTMLElement} place @param {HTMLElement} pages */
export function mount(place, pages) {
  const cards = [
    card("trace", "book_3x4", BOOK),
    card("positions", "book_positions", NEAR),
    card("compare", "book_compare", CAUSAL),
  ];
  fill(
    place,
    h("h1", {}, t("welcome_none")),
    h("p", { class: "intro" }, t("lead_none")),
    h("div", { class: "examples" }, cards),
    h("div", { class: "home" }, commands(), pages),
  );
  document.documentElement.dataset.ready = "home/none";
}

/** @param {string} page @param {string} name @param {number[][]} values */
function card(page, name, values) {
  const cell = Math.floor(92 / values.length);
  const canvas = h("canvas", { width: cell * values[0].length, height: cell * values.length, "aria-hidden": "true" });
  const context = contextOf(canvas);
  values.forEach((row, q) =>
    row.forEach((value, k) => {
      context.fillStyle = colour(state.dark.value ? "ink dark" : "ink light", Math.round(255 * Math.sqrt(value)));
      context.fillRect(k * cell, q * cell, cell - 1, cell - 1);
    }),
  );
  return h(
    "a",
    { class: "example", href: state.address(page) },
    h("div", { class: "picture" }, canvas),
    h("p", { class: "answer" }, t(name)),
    h("p", { class: "story" }, t(`${name}_note`)),
  );
}

function commands() {
  const lines = DEMOS.map(([name, demo]) =>
    h("li", {}, h("code", {}, `headwise demo ${demo}`), h("span", { class: "side" }, t(name))),
  );
  return h(
    "section",
    { class: "panel", "aria-label": t("make_run") },
    h("h2", {}, t("make_run")),
    h("ul", { class: "demos" }, lines),
    h("p", { class: "side" }, t("then"), " ", h("code", {}, "headwise explore runs/demo")),
  );
}
