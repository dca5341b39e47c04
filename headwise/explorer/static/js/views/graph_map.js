// @ts-check
/** The weights between nodes as a map, whose cells are pairs that the keyboard reaches too. */

import { h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import * as heat from "./heat.js";

/** Weights of a row that add up to less lack some. */
const WHOLE = 0.995;

/** How far a key moves the chosen pair: rows, columns. @type {Record<string, [number, number]>} */
const MOVES = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  Enter: [0, 0],
  " ": [0, 0],
};

/** @param {HTMLElement} place @param {import("../pages/graph.js").Seen} seen @returns {() => void} */
export function mount(place, { part, group, title, ...seen }) {
  const names = part.nodes.map(({ name }) => name);
  const count = names.length;
  const weights = new Float32Array(count * count).fill(-Infinity);
  const sums = new Float32Array(count);
  /** @type {number[]} */
  const blank = [];
  part.pairs.forEach(([q, k], edge) => {
    sums[q] += seen.weights[edge];
    if (q === k && state.loops.value) blank.push(q * count + k);
    else weights[q * count + k] = seen.weights[edge];
  });
  const absent = { blank, hidden: t("loop_hidden"), pair: t(state.reads() === "molecule" ? "no_bond" : "no_edge") };
  const head = { weights, group: { ...group, queries: names, keys: names }, title, absent };
  const map = h("div", { onkeydown: (/** @type {KeyboardEvent} */ event) => pressed(event, head) });
  place.append(h("h2", {}, t("adjacency")), map);
  // of a node at the edge of the drawing some neighbours are not in it
  if (sums.some((sum) => sum > 0 && sum < WHOLE)) place.append(h("p", { class: "legend" }, t("rows_cut")));
  return heat.mount(map, head);
}

/** Moves the chosen pair, from the first one on. @param {KeyboardEvent} event @param {heat.Head} head */
function pressed(event, head) {
  const move = MOVES[event.key];
  if (!move || !(event.target instanceof HTMLCanvasElement)) return;
  event.preventDefault();
  event.stopPropagation();
  const { q, k } = heat.locked(head);
  const last = head.group.queries.length - 1;
  const next = (/** @type {number} */ at, /** @type {number} */ by) => Math.max(0, Math.min(last, at + by));
  heat.choose(
    q < 0 || k < 0 ? { q: Math.max(0, q), k: Math.max(0, q) } : { q: next(q, move[0]), k: next(k, move[1]) },
    head,
  );
}
