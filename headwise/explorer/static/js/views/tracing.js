// @ts-check
/** What the page Trace shows and where it is in it: steps, the chosen pair, the open step, the player. */

import { thread } from "../core/steps.js";
import { batch, signal } from "../store.js";
import * as state from "../state.js";
import { openingCell } from "./opening.js";

/** @typedef {import("../core/steps.js").Steps} Steps */
/** @typedef {import("../core/steps.js").Step} Step */
/** @typedef {import("../core/steps.js").Link} Link */
/** @typedef {import("../core/steps.js").Place} Place */

/** Letters of a token. */
export const LETTERS = 16;
const PLAY_MS = 2200;
/** @type {Record<string, string>} */
export const KINDS = {
  query: "of-query",
  queries: "of-query",
  key: "of-key",
  keys: "of-key",
  value: "of-value",
};

/** The steps that are shown, and whether those of a head are still to come. */
export const steps = signal(/** @type {Steps | null} */ (null));

/** Puts NaN for numbers that are asked for. */
export const covering = signal(/** @type {(all: Steps) => Steps} */ ((all) => all));

/** The timer of the player, 0 where it rests. */
export const playing = signal(0);

/** The trace of a graph with too many nodes for its steps. */
export const crowded = signal(/** @type {state.Trace | null} */ (null));
export const isCrowded = () => Boolean(crowded.value) && crowded.value === state.trace.value;

/** Whether the worked example is shown: it is chosen, or nothing else is asked for, or can be. */
export const isTextbook = () => Boolean(state.textbook.value) || isCrowded() || (!state.trace.value && !state.asked());

/** Whether anything is other than the model did it. */
export const supposed = () => Object.keys(supposition()).length > 0;

/** What the steps are asked for with beside the head. */
export function supposition() {
  const left = state.without.value.split(",");
  const parts = ["causal", "padding"].filter((name) => left.includes(name)).map((name) => [name, "false"]);
  const temperature = state.temperature.value === "1" ? [] : [["temperature", state.temperature.value]];
  const scaled = state.scaling.value ? [["scaled", String(state.scaling.value === "on")]] : [];
  const causal = state.causal.value ? [["causal", "true"]] : [];
  return /** @type {Record<string, string>} */ (Object.fromEntries([...temperature, ...scaled, ...causal, ...parts]));
}

/** Numbers of a query of this head. @param {Steps} all */
export const headWidth = ({ by }) => (by.query ? by.query.shape[1] : 0);

/**
 * Where one is: the locked cell, else the largest weight; a column.
 * @param {Steps} all
 * @param {boolean} [once] not to be followed @returns {Place}
 */
export function place(all, once = false) {
  const { by, queries, keys } = steps.peek() || all;
  const { weights } = by;
  const [q, k, c] = [state.query, state.key, state.column].map((part) => (once ? part.peek() : part.value));
  let cell = { q, k };
  if (cell.q < 0 || cell.k < 0) {
    const first =
      weights && !isTextbook() ? strongest(weights, by.masked, cell.q) : { q: 0, k: Math.min(1, keys.length - 1) };
    cell = { q: cell.q < 0 ? first.q : cell.q, k: cell.k < 0 ? first.k : cell.k };
  }
  const [rows, columns] = weights ? weights.shape : [queries.length, keys.length];
  return { q: Math.min(cell.q, rows - 1), k: Math.min(cell.k, columns - 1), c: Math.max(0, c) };
}

/**
 * The cell on which a head opens, or the largest weight of a row.
 * @param {Step} weights @param {Step | undefined} masked @param {number} row
 */
function strongest({ values }, masked, row) {
  const [trace, group] = [state.trace.value, state.chosen()];
  if (row >= 0 && row < values.length) return { q: row, k: values[row].indexOf(Math.max(...values[row])) };
  if (!trace || !group) return { q: 0, k: 0 };
  const flat = Float32Array.from(values.flat());
  const each = (/** @type {number} */ length) => Array.from({ length }, (_, at) => [at]);
  const scores = masked ? masked.values.flat() : [];
  const marked = masked ? flat.map((share, at) => (scores[at] > -Infinity ? share : -Infinity)) : flat;
  const head = { weights: flat, marked, rows: each(values.length), columns: each(values[0].length) };
  return openingCell(head, trace, group);
}

/**
 * The labels along an axis: tokens, or numbers from 1.
 * @param {Steps} all @param {string} axis @param {number} length
 */
export function labels({ queries, keys }, axis, length) {
  const known = axis === "queries" ? queries : axis === "keys" ? keys : [];
  return Array.from({ length }, (_, at) => known[at] ?? String(at + 1));
}

/** @param {Link[]} links */
function openAt(links) {
  const at = links.findIndex(({ id }) => id === state.link.value);
  if (at >= 0) return at;
  return Math.max(
    0,
    links.findIndex(({ id }) => id === "score" || id === "features"),
  );
}

/** @param {Steps} all @param {Place} now */
export function openLink(all, now) {
  const links = thread(all, now);
  const at = openAt(links);
  return { links, at, link: links[at] };
}

/** Another pair, or column. @param {Partial<Place>} next */
export function choosePlace(next) {
  const all = steps.peek();
  if (!all) return;
  const now = { ...place(all), ...next };
  state.instead(() =>
    batch(() => {
      [state.query.value, state.key.value, state.column.value] = [now.q, now.k, now.c];
    }),
  );
}

/** @param {string} id @param {string} [of] */
export function open(id, of = "") {
  batch(() => {
    state.link.value = id;
    state.matrix.value = of;
  });
}

/** So many steps on; the first or the last where it is infinite. @param {number} by */
export function step(by) {
  const all = steps.peek();
  if (!all) return false;
  const links = thread(all, place(all));
  const [at, last] = [openAt(links), links.length - 1];
  const next = Math.max(0, Math.min(last, at + by));
  if (next !== at) open(links[next].id);
  return next !== at;
}

/** Plays from step to step, or rests. */
export function play() {
  if (playing.peek()) return rest();
  const all = steps.peek();
  const links = all ? thread(all, place(all)) : [];
  if (openAt(links) === links.length - 1) open(links[0].id);
  playing.value = setInterval(() => {
    if (!step(1)) rest();
  }, PLAY_MS);
}

export function rest() {
  clearInterval(playing.peek());
  playing.value = 0;
}
