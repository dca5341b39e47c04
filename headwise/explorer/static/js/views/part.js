// @ts-check
/** The part of a large head that links show: some rows, around the chosen one, and keys that these attend to. */

import { apart, cut, percent } from "../core/text.js";
import { fill, h } from "../dom.js";
import { effect, signal } from "../store.js";
import { learn, phrase, t } from "../strings.js";
import { WORDS } from "../words/part.js";
import { chosen } from "./heat.js";

learn(WORDS);

/** Tokens of a side up to which all are drawn. */
const ALL = 60;

/** How many are drawn of more, and how many keys of the chosen row are among them: those that its bars name too. */
export const SOME = 16;
const CHOSEN = 8;
/** Letters of a token in a sentence. */
const LETTERS = 16;

/** @typedef {import("./links.js").Heads} Heads */

/** @param {{ group: import("../state.js").Group }} head */
export const isLarge = ({ group }) => Math.max(group.queries.length, group.keys.length) > ALL;

/** @param {Heads} head @param {number} row */
const first = ({ group }, row) =>
  group.queries.length > ALL ? Math.max(0, Math.min(group.queries.length - SOME, row - SOME / 2)) : 0;

/** The part of a head that is shown, around the chosen row. @param {Heads} head */
export const shownPart = (head) => part(head, first(head, chosen(head).q), chosen(head).q);

/**
 * @param {Heads} head @param {number} from the first row that is drawn @param {number} row the chosen one
 * @returns {Heads & { share: number }} `share`: what the keys have of the chosen row, of all where none is
 */
export function part(head, from, row) {
  const { group, rows, columns } = head;
  const count = group.keys.length;
  const to = group.queries.length > ALL ? from + SOME : group.queries.length;
  const kept = count > ALL ? strongestKeys(head, from, to, row) : Array.from({ length: count }, (_, k) => k);
  const take = (/** @type {Float32Array} */ weights) =>
    Float32Array.from({ length: (to - from) * kept.length }, (_, at) => {
      const [q, k] = [from + Math.floor(at / kept.length), kept[at % kept.length]];
      return weights[q * count + k];
    });
  const of = row >= from && row < to ? [row, row + 1] : [from, to];
  const whole = sum(head.weights.subarray(of[0] * count, of[1] * count));
  const weights = take(head.weights);
  return {
    ...head,
    weights,
    coloured: head.coloured?.map((one) => ({ ...one, weights: take(one.weights) })),
    rows: Array.from({ length: to - from }, (_, q) => (rows ? rows[from + q] : [from + q])),
    columns: kept.map((k) => (columns ? columns[k] : [k])),
    group: { ...group, queries: group.queries.slice(from, to), keys: kept.map((k) => group.keys[k]) },
    part: {
      q: group.queries.length > ALL ? Array.from({ length: to - from }, (_, q) => from + q) : null,
      k: count > ALL ? kept : null,
    },
    share: sum(weights.subarray((of[0] - from) * kept.length, (of[1] - from) * kept.length)) / (whole || 1),
  };
}

/** @param {Float32Array} weights */
const sum = (weights) => weights.reduce((all, weight) => all + weight, 0);

/**
 * As many keys as are drawn: the largest of the chosen row, of each row, the second of each, and so on.
 * @param {Heads} head @param {number} from @param {number} to the rows that are drawn @param {number} chosen
 */
function strongestKeys({ weights, group }, from, to, chosen) {
  const count = group.keys.length;
  const largest = (/** @type {number} */ q, /** @type {number} */ most) => {
    const row = weights.subarray(q * count, (q + 1) * count);
    return Array.from(row.keys())
      .sort((one, two) => row[two] - row[one])
      .slice(0, most);
  };
  const orders = Array.from({ length: to - from }, (_, at) => largest(from + at, SOME));
  const kept = new Set(chosen >= from && chosen < to ? orders[chosen - from].slice(0, CHOSEN) : []);
  for (let rank = 0; rank < SOME; rank += 1) for (const order of orders) if (kept.size < SOME) kept.add(order[rank]);
  return [...kept].sort((one, two) => one - two);
}

/**
 * The links of a large head: a part of it, others by buttons, or by choosing a row there.
 * @param {HTMLElement} place @param {Heads} head @param {(place: HTMLElement, part: Heads) => () => void} draw
 */
export function mount(place, head, draw) {
  const { queries, keys } = head.group;
  const rows = queries.length;
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
  let [end, alive, drawn] = [() => {}, true, ""];
  const redraw = (/** @type {number} */ at, /** @type {number} */ row) => {
    drawn = `${at} ${row}`;
    end();
    const now = part(head, at, row);
    const within = row >= at && row < at + now.group.queries.length;
    const of = percent(now.share, 0);
    const names = apart(queries, (label) => cut(label, LETTERS));
    fill(
      note,
      rows > ALL ? `${t("part_rows", at + 1, at + SOME, rows)} ` : "",
      keys.length <= ALL
        ? ""
        : within
          ? phrase("part_keys", now.group.keys.length, keys.length.toLocaleString("en"), of, h("bdi", {}, names(row)))
          : t("part_keys_all", now.group.keys.length, keys.length.toLocaleString("en"), of),
    );
    const focused = body.contains(document.activeElement);
    fill(body);
    end = draw(body, now);
    if (focused) /** @type {HTMLElement | null} */ (body.querySelector(".token[tabindex='0']"))?.focus();
  };
  redraw(from.peek(), chosen(head).q);
  const ends = [
    effect(() => {
      const { q } = chosen(head);
      if (rows > ALL && q >= 0 && (q < from.peek() || q >= from.peek() + SOME)) from.value = first(head, q);
    }),
    effect(() => {
      const [at, { q }] = [from.value, chosen(head)];
      if (`${at} ${q}` === drawn) return;
      // drawn apart from this effect, which follows nothing but the rows
      queueMicrotask(() => alive && redraw(at, q));
    }),
  ];
  return () => {
    alive = false;
    ends.forEach((one) => one());
    end();
  };
}
