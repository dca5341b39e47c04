// @ts-check
/** The weights between nodes as a map, whose cells are pairs that the keyboard reaches too. */

import { share } from "../core/text.js";
import { h } from "../dom.js";
import { MOVES } from "../keys.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import * as heat from "./heat.js";

/** Weights of a row that add up to less lack some. */
const WHOLE = 0.995;

/** How far a key moves the chosen pair, or chooses the first one. @type {typeof MOVES} */
const KEYS = { ...MOVES, Enter: [0, 0], " ": [0, 0] };

/** @param {HTMLElement} place @param {import("../pages/graph.js").Seen} seen */
export function mount(place, { part, group, title, weights: given }) {
  const names = part.nodes.map(({ name }) => name);
  const count = names.length;
  const weights = new Float32Array(count * count).fill(-Infinity);
  const sums = new Float32Array(count);
  /** @type {number[]} */
  const blank = [];
  part.pairs.forEach(([q, k], edge) => {
    sums[q] += given[edge];
    if (q === k && state.loops.value) blank.push(q * count + k);
    else weights[q * count + k] = given[edge];
  });
  const absent = { blank, hidden: t("loop_hidden"), pair: t(state.reads() === "molecule" ? "no_bond" : "no_edge") };
  const head = { weights, group: { ...group, queries: names, keys: names }, title, absent };
  const map = h("div", { onkeydown: (/** @type {KeyboardEvent} */ event) => pressed(event, head) });
  // of a node at the edge of the drawing some neighbours are not in it
  const cut = [...names.keys()].filter((q) => sums[q] > 0 && sums[q] < WHOLE);
  const least = cut.toSorted((one, other) => sums[one] - sums[other])[0];
  const words = cut.length ? h("p", { class: "legend" }, t("rows_cut", names[least], share(sums[least]))) : "";
  place.append(h("h2", {}, t("adjacency")), words, map);
  return heat.mount(map, head);
}

/** Moves the chosen pair, from the first one on. @param {KeyboardEvent} event @param {heat.Head} head */
function pressed(event, head) {
  const move = KEYS[event.key];
  if (!move || !(event.target instanceof HTMLCanvasElement)) return;
  event.preventDefault();
  event.stopPropagation();
  const { q, k } = heat.locked(head);
  const first = Math.max(0, q);
  heat.choose(q < 0 || k < 0 ? { q: first, k: first } : heat.moved({ q, k }, move, head.group), head);
}
