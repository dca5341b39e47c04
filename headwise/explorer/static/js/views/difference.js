// @ts-check
/** What differs between two heads: in sentences, in a table of their answers, and in one row as paired bars. */

import { getJson, query } from "../api.js";
import { apart, cut, legible, percent } from "../core/text.js";
import { fill, h, strong } from "../dom.js";
import { effect } from "../store.js";
import { learn, named, phrase, t } from "../strings.js";
import { spelled } from "./spelled.js";
import { tableOf } from "./table.js";

/** @typedef {import("../state.js").Trace} Trace */
/**
 * A side of a comparison: `name` is A or B, `title` what stands beside it, `marked` its weights with minus infinity
 * where its mask forbids a pair.
 * @typedef {{ name: string, title: string, trace: Trace, group: import("../state.js").Group, head: number, marked:
 * Float32Array }} Shown
 */
/** @typedef {ReturnType<typeof largest>} Largest */

/** Letters of a token, keys of a row and metrics of a run at most; differences below are none. */
const [LETTERS, MOST, METRICS, NOISE] = [16, 14, 3, 1e-6];

/** Whether two maps have the same rows and columns. @param {Shown} a @param {Shown} b */
export const alike = (a, b) =>
  a.group.queries.length === b.group.queries.length && a.group.keys.length === b.group.keys.length;

/** What a model answers, after its edits where these change it. @param {Trace} trace */
const answerOf = ({ output, change }) => (change && change.answer ? change.answer.after : output);

/** @param {string} text */
const readable = (text) => legible(text.trim());

/** @param {Shown} side @param {number} share */
const inColour = ({ name }, share) => h("b", { class: `of-${name}` }, percent(share, 1));

/**
 * The cell of words in which two maps differ most, else the first; `most`: by how much; `any`, `size`: of all cells.
 * @param {Shown} a @param {Shown} b
 */
export function largest(a, b) {
  const columns = a.group.keys.length;
  const [rows, keys] = [words(a, "queries"), words(a, "keys")];
  let [best, most, size, any] = [0, -1, 0, 0];
  a.marked.forEach((one, at) => {
    const gap = Math.abs(taken(b.marked[at]) - taken(one));
    if (gap > size) [any, size] = [at, gap];
    if (gap > most && rows[Math.floor(at / columns)] && keys[at % columns]) [best, most] = [at, gap];
  });
  return { q: Math.floor(best / columns), k: best % columns, most, size, any };
}

/**
 * Which labels of a side are words, neither special tokens nor punctuation nor blanks; all, where none is.
 * @param {Shown} shown @param {"queries" | "keys"} side
 */
function words({ trace, group }, side) {
  const special = new Set(spelled(trace, group)[side].special || []);
  const found = group[side].map((label, at) => !special.has(at) && !/^[\p{P}\p{S}\s]+$/u.test(label));
  return found.includes(true) ? found : found.map(() => true);
}

/**
 * Names of the rows or columns of two maps; of tokens that differ both.
 * @param {Shown} a @param {Shown} b @param {"queries" | "keys"} side
 */
export function names(a, b, side) {
  const both = [a, b].map(({ group }) => apart(group[side], (label) => cut(label, LETTERS)));
  return (/** @type {number} */ at) => [...new Set(both.map((name) => name(at)))].join(" / ");
}

/** Tokens of two maps at each place. @param {string[]} one @param {string[]} two */
export const both = (one, two) => one.map((token, at) => (token === two[at] ? token : `${token}/${two[at]}`));

/** A forbidden pair takes nothing. @param {number} weight */
const taken = (weight) => (weight === -Infinity ? 0 : weight);

/** @param {HTMLElement} place @param {Shown} a @param {Shown} b @param {Largest | null} most */
export function report(place, a, b, most) {
  const answered = [a, b].map(({ trace }) => [answerOf(trace).trim().replace(/[ \n]/g, "")]);
  const labels = [a, b].flatMap(({ group }) => [group.queries, group.keys]);
  const list = h("ul", { class: "differs" }, sentences(a, b, most));
  const note = h("p", { class: "note" });
  import("./marks.js").then(({ marks }) => fill(note, marks(...labels, ...answered)));
  import("./near_even.js").then(async ({ doubt }) => {
    const [one, two] = await Promise.all([doubt(a.trace), doubt(b.trace)]);
    // without an answer there is less to doubt
    const lines = one && two ? [["A, B", one < two ? one : two]] : Object.entries({ A: one, B: two });
    list.append(...lines.flatMap(([name, words]) => (words ? [h("li", {}, `${name} · ${words}`)] : [])));
  });
  fill(place, h("h2", {}, t("what_differs")), list, note);
}

/**
 * What two runs were trained for and measured by; of one run nothing.
 * @param {HTMLElement} place @param {Shown} a @param {Shown} b
 */
export function measured(place, a, b) {
  place.hidden = a.trace.model === b.trace.model;
  if (place.hidden) return;
  const table = h("div");
  fill(place, h("h2", {}, t("two_trainings")), table, h("p", { class: "note" }, t("two_runs")));
  const card = (/** @type {Shown} */ { trace }) =>
    getJson(`/api/v1/cards?${query({ model: trace.model, inputs: "false" })}`);
  Promise.all([import("./run_card.js"), import("../words/tasks.js"), card(a), card(b)]).then(
    ([{ metric }, { WORDS }, ...cards]) => {
      learn(WORDS);
      fill(table, runs([a, b], cards, metric));
    },
    // a page that was saved may have none
    () => {},
  );
}

/**
 * Two runs, what both were measured by, and whether that compares.
 * @param {Shown[]} sides
 * @param {{ task: string, data: string[], digests: Record<string, string> | null, metrics: Record<string, number>
 * }[]} cards `digests` of what the files of `data` hold; null: unknown
 * @param {typeof import("./run_card.js").metric} metric writes a number
 */
function runs(sides, cards, metric) {
  const names = Object.keys(cards[0].metrics)
    .filter((name) => name in cards[1].metrics)
    .slice(0, METRICS);
  const about = cards.map(({ task, data }) => [named("task", task), ...data].join(" · "));
  // two files may have one name
  const [same, other] = cards.map(({ task, data, digests }) => JSON.stringify([task, digests || data]));
  const note = h(
    "p",
    { class: "note" },
    t(!names.length ? "no_scores" : same === other ? "one_seed" : "other_measures"),
  );
  const column = (/** @type {string} */ text) => h("th", { scope: "col", class: "number" }, text);
  const table = tableOf(
    { class: "answers" },
    [t("model"), ...names.map((name) => column(named("metric", name)))],
    sides.map(({ name, trace }, at) => [
      h(
        "th",
        { scope: "row" },
        h("b", { class: `of-${name}` }, name),
        ` ${trace.model} `,
        h("span", { class: "side" }, about[at]),
      ),
      ...names.map((one) => h("td", { class: "number" }, metric(one, cards[at].metrics[one]))),
    ]),
  );
  return [h("div", { class: "scrolls", tabindex: 0 }, table), note];
}

/** What both answer; of neither nothing. @param {Shown} a @param {Shown} b */
function answers(a, b) {
  const whole = [answerOf(a.trace), answerOf(b.trace)];
  const [first, second] = whole.map(readable);
  if (first === second)
    return first ? [phrase(whole[0] === whole[1] ? "same_answer" : "like_answer", strong(first))] : [];
  if (first && second) return [phrase("two_answers", strong(first), strong(second))];
  const [side, none] = first ? [a, b] : [b, a];
  return [phrase("one_answer", side.name, strong(first || second), none.name)];
}

/** @param {Shown} a @param {Shown} b @param {Largest | null} most where they differ most, of maps that compare */
function sentences(a, b, most) {
  const lines = answers(a, b);
  const [from, to] = [names(a, b, "queries"), names(a, b, "keys")];
  if (most && most.size < NOISE) lines.push([t("same_maps")]);
  else {
    if (most) lines.push(...ofMaps(a, b, most, from, to));
    const counts = [a, b].map((side) => h("b", { class: `of-${side.name}` }, spread(side).toFixed(1)));
    const keys = [a, b].map(({ group }) => String(group.keys.length));
    const causal = [a, b].filter(({ group }) => group.causal && group.kind !== "cross").map(({ name }) => name);
    const note = causal.length === 1 ? [" ", t("causal_keys", causal[0])] : [];
    lines.push([...phrase("keys_each", ...counts, ...keys), ...note]);
  }
  const [zero, none] = [a, b].map(zeros);
  const [full, sparse] = zero ? [b, a] : [a, b];
  if (zero && none) lines.push(phrase("exact_zeros", inColour(a, zero), inColour(b, none)));
  else if (zero || none) lines.push(phrase("zeros_of_one", full.name, inColour(sparse, zero || none), sparse.name));
  if (most) lines.push(...ofAll(a, b, most, from, to));
  return lines.map((line) => h("li", {}, line));
}

/** @typedef {ReturnType<typeof names>} Names */

/**
 * The largest difference, where it is not one of words.
 * @param {Shown} a @param {Shown} b @param {Largest} found @param {Names} from @param {Names} to
 */
function ofAll(a, b, { most, size, any }, from, to) {
  if (size <= most) return [];
  const columns = a.group.keys.length;
  const shares = [a, b].map((side) => inColour(side, taken(side.marked[any])));
  return [phrase("all_differ_most", strong(from(Math.floor(any / columns))), strong(to(any % columns)), ...shares)];
}

/** @param {Shown} a @param {Shown} b @param {Largest} found @param {Names} from @param {Names} to */
function ofMaps(a, b, { q, k, most, size }, from, to) {
  const columns = a.group.keys.length;
  const at = q * columns + k;
  const peaks = [a, b].map(({ marked }) => rows(marked, columns).map((row) => row.indexOf(Math.max(...row))));
  const agreed = peaks[0].filter((key, row) => key === peaks[1][row]).length;
  return [
    phrase(
      size > most ? "words_differ_most" : "differ_most",
      strong(from(q)),
      inColour(a, taken(a.marked[at])),
      inColour(b, taken(b.marked[at])),
      strong(to(k)),
    ),
    phrase("same_peaks", String(agreed), String(peaks[0].length)),
  ];
}

/** @param {Float32Array} values @param {number} columns */
const rows = (values, columns) =>
  Array.from({ length: values.length / Math.max(1, columns) }, (_, q) =>
    Array.from(values.subarray(q * columns, (q + 1) * columns)),
  );

/** The keys that a row looks at, exp(entropy), as a mean over the rows. @param {Shown} side */
function spread({ marked, group }) {
  const counts = rows(marked, group.keys.length).map((row) => {
    const shares = row.filter((weight) => weight > 0);
    const sum = shares.reduce((all, share) => all + share, 0);
    return Math.exp(-shares.reduce((all, share) => all + (share / sum) * Math.log(share / sum), 0));
  });
  return counts.reduce((all, count) => all + count, 0) / Math.max(1, counts.length);
}

/** The share of the permitted pairs that get exactly 0. @param {Shown} side */
function zeros({ marked }) {
  const permitted = marked.filter((weight) => weight > -Infinity);
  return permitted.filter((weight) => weight === 0).length / Math.max(1, permitted.length);
}

/**
 * One row of both, as bars below each other.
 * @param {HTMLElement} place @param {Shown} a @param {Shown} b @param {() => { q: number, k: number }} spot
 */
export function row(place, a, b, spot) {
  const columns = a.group.keys.length;
  const [from, to] = [names(a, b, "queries"), names(a, b, "keys")];
  return effect(() => {
    const { q, k } = spot();
    const [one, two] = [a, b].map(({ marked }) => Array.from(marked.subarray(q * columns, (q + 1) * columns), taken));
    // what both masks forbid takes nothing
    const open = (/** @type {number} */ at) => [a, b].some(({ marked }) => marked[q * columns + at] > -Infinity);
    const keys = [...one.keys()].filter(open);
    const count = keys.length;
    const shown =
      count > MOST ? keys.sort((x, y) => Math.max(one[y], two[y]) - Math.max(one[x], two[x])).slice(0, MOST) : keys;
    fill(
      place,
      h("h2", {}, phrase("row_of", h("bdi", {}, from(q)))),
      h(
        "div",
        { class: "pairs" },
        h(
          "div",
          {},
          h("i"),
          h("i"),
          [a, b].map(({ name }) => h("b", { class: `of-${name}` }, name)),
        ),
        shown.map((at) => pair(to(at), one[at], two[at], at === k)),
      ),
      count > MOST ? h("p", { class: "note" }, t("largest_keys", MOST, count)) : null,
    );
  });
}

/** @param {string} label @param {number} one @param {number} two @param {boolean} on */
function pair(label, one, two, on) {
  const track = (/** @type {string} */ name, /** @type {number} */ weight) => {
    const line = h("span", { class: `track of-${name}` });
    line.style.width = `${Math.min(100, Math.max(0, 100 * weight))}%`;
    return line;
  };
  return h(
    "div",
    { class: on ? "on" : null },
    h("bdi", { title: label }, label),
    h("span", { class: "tracks" }, track("A", one), track("B", two)),
    h("span", { class: "of-A" }, percent(one, 1)),
    h("span", { class: "of-B" }, percent(two, 1)),
  );
}
