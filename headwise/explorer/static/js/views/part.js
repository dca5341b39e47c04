// @ts-check
/** The part of a large head that links show: some rows, around the chosen one, and keys that these attend to. */

import { percent } from "../core/text.js";
import { fill, h } from "../dom.js";
import { effect, signal } from "../store.js";
import { learn, sentences, t } from "../strings.js";
import { WORDS } from "../words/part.js";
import { chosen } from "./heat.js";

learn(WORDS);

/** Tokens of a side up to which all are drawn. */
export const ALL = 60;

/** How many are drawn of more. */
export const SOME = 40;

/**
 * `wide`: some rows of a head, from `from` on, with all columns; `narrow`: its columns `kept`; `share`: what they
 * have of the weight of the rows; `positions`: where its rows and columns are in the head, null where all are shown
 * @typedef {{ narrow: import("./links.js").Heads, wide: import("./links.js").Heads, from: number, kept: number[],
 *   share: number, positions: { q: number[] | null, k: number[] | null } }} Part
 */

/** @param {import("./links.js").Heads} head */
export const isLarge = ({ group }) => Math.max(group.queries.length, group.keys.length) > ALL;

/** @param {import("./links.js").Heads} head @param {number} row */
export const first = ({ group }, row) =>
  group.queries.length > ALL ? Math.max(0, Math.min(group.queries.length - SOME, row - SOME / 2)) : 0;

/**
 * @param {import("./links.js").Heads} head @param {number} from the first row that is drawn
 * @returns {Part}
 */
export function part(head, from) {
  const { group, rows, columns } = head;
  const count = group.keys.length;
  const to = group.queries.length > ALL ? from + SOME : group.queries.length;
  const slice = (/** @type {Float32Array} */ weights) => weights.subarray(from * count, to * count);
  const numbers = (/** @type {number} */ length) => Array.from({ length }, (_, at) => [at]);
  const wide = {
    ...head,
    weights: slice(head.weights),
    coloured: head.coloured?.map((one) => ({ ...one, weights: slice(one.weights) })),
    rows: (rows || numbers(group.queries.length)).slice(from, to),
    columns: columns || numbers(count),
    group: { ...group, queries: group.queries.slice(from, to) },
  };
  const kept = count > ALL ? strongestKeys(wide) : Array.from({ length: count }, (_, k) => k);
  const take = (/** @type {Float32Array} */ weights) =>
    Float32Array.from({ length: (to - from) * kept.length }, (_, at) => {
      const [q, k] = [Math.floor(at / kept.length), kept[at % kept.length]];
      return weights[q * count + k];
    });
  const narrow = {
    ...wide,
    weights: take(wide.weights),
    coloured: wide.coloured?.map((one) => ({ ...one, weights: take(one.weights) })),
    columns: kept.map((k) => wide.columns[k]),
    group: { ...wide.group, keys: kept.map((k) => group.keys[k]) },
  };
  const positions = {
    q: group.queries.length > ALL ? wide.group.queries.map((_, q) => from + q) : null,
    k: count > ALL ? kept : null,
  };
  return { narrow, wide, from, kept, positions, share: sum(narrow.weights) / (sum(wide.weights) || 1) };
}

/** @param {Float32Array} weights */
const sum = (weights) => weights.reduce((all, weight) => all + weight, 0);

/**
 * As many keys as are drawn: of each row the largest, then the second of each, and so on, until there are enough.
 * @param {import("./links.js").Heads} head
 */
function strongestKeys({ weights, group }) {
  const count = group.keys.length;
  const orders = group.queries.map((_, q) => {
    const row = weights.subarray(q * count, (q + 1) * count);
    return Array.from(row.keys())
      .sort((one, two) => row[two] - row[one])
      .slice(0, SOME);
  });
  const kept = new Set();
  for (let rank = 0; rank < SOME; rank += 1) for (const order of orders) if (kept.size < SOME) kept.add(order[rank]);
  return [...kept].sort((one, two) => one - two);
}

/**
 * The links of a large head: a part of it, others by buttons, or by choosing a row there.
 * @param {HTMLElement} place @param {import("./links.js").Heads} head
 * @param {(place: HTMLElement, part: Part) => () => void} draw
 * @returns {() => void}
 */
export function mount(place, head, draw) {
  const rows = head.group.queries.length;
  const from = signal(first(head, chosen(head).q));
  const [note, body] = [h("p", { class: "note" }), h("div")];
  const move = (/** @type {number} */ by) => (from.value = Math.max(0, Math.min(rows - SOME, from.peek() + by)));
  const button = (/** @type {string} */ name, /** @type {number} */ by, /** @type {() => boolean} */ last) =>
    h("button", { class: "small", onclick: () => move(by), disabled: last }, t(name));
  const moves =
    rows > ALL
      ? h(
          "p",
          { class: "controls" },
          button("rows_before", -SOME, () => from.value === 0),
          button("rows_after", SOME, () => from.value === rows - SOME),
        )
      : "";
  place.append(note, moves, body);
  let [end, alive, drawnFrom] = [() => {}, true, -1];
  const redraw = (/** @type {number} */ at) => {
    drawnFrom = at;
    end();
    const now = part(head, at);
    const count = head.group.keys.length;
    note.textContent = sentences(
      rows > ALL ? t("part_rows", now.from + 1, now.from + SOME, rows) : "",
      count > ALL ? t("part_keys", now.kept.length, count.toLocaleString("en"), percent(now.share, 0)) : "",
    );
    fill(body);
    end = draw(body, now);
  };
  redraw(from.peek());
  const ends = [
    effect(() => {
      const { q } = chosen(head);
      if (rows > ALL && q >= 0 && (q < from.peek() || q >= from.peek() + SOME)) from.value = first(head, q);
    }),
    effect(() => {
      const at = from.value;
      // drawn apart from this effect, which follows nothing but the rows
      if (at !== drawnFrom) queueMicrotask(() => alive && redraw(at));
    }),
  ];
  return () => {
    alive = false;
    ends.forEach((one) => one());
    end();
  };
}
