// @ts-check
/** Questions that are made of the steps of a head, with their answers: numbers to work out, tokens to choose. */

import { shown } from "./text.js";
import { fixed, placesOf, short, significant, weight } from "./digits.js";

/** @typedef {import("./steps.js").Steps} Steps */
/**
 * `words`, `hint`: what fills them; `options`: where a token is chosen; `link`, `place`: where it is worked;
 * `tolerance`: how far a number may be off.
 * @typedef {{ kind: string, words: (string | string[])[], hint: string[], answer: number, shown: string,
 *   tolerance: number, options: string[] | null, link: string, of: string, place: { q: number, k: number, c: number }
 * }} Exercise
 */

/** Keys of a question that lists a row, and numbers of a vector that is multiplied by hand, at most. */
const [ROW, WIDTH] = [10, 4];

/** Numbers from 0 to 1 that a seed gives, the same each time. @param {number} seed */
function random(seed) {
  let now = (seed + 1) * 2654435761;
  return () => {
    now = (Math.imul(now ^ (now >>> 15), 2246822519) + 374761393) | 0;
    return ((now ^ (now >>> 13)) >>> 0) / 2 ** 32;
  };
}

/** One question of each kind that the steps allow. @param {Steps} steps @param {number} seed @returns {Exercise[]} */
export function exercises(steps, seed) {
  const next = random(seed);
  const pick = (/** @type {number[]} */ all) => all[Math.floor(next() * all.length)];
  const named = { ...steps, queries: steps.queries.map(shown), keys: steps.keys.map(shown) };
  const all = [product, scaled, masked, largest].map((make) => make(named, pick));
  // no question tells the weight that another one asks for
  const asked = /** @type {Set<number>} */ (new Set());
  for (const make of [share, rest, output]) {
    const exercise = make(named, pick, asked);
    if (exercise) asked.add(exercise.place.q);
    all.push(exercise);
  }
  return all.filter((exercise) => exercise !== null);
}

/** @typedef {(all: number[]) => number} Pick */

/** A token and its number: a full stop and a comma are tokens too. @param {string} token @param {string} number */
const quoted = (token, number) => `“${token}” ${number}`;

/** @param {number} length */
const each = (length) => Array.from({ length }, (_, at) => at);

/** The rows that nothing is asked of yet. @param {number[]} rows @param {Set<number>} asked */
const fresh = (rows, asked) => rows.filter((q) => !asked.has(q));

/** The keys that a query may attend to. @param {number[]} row */
const open = (row) => each(row.length).filter((k) => row[k] > -Infinity);

/** The scores that become weights. @param {Steps} steps */
const scoresOf = ({ by }) =>
  by.weights && by.weights.working && by.weights.working.rule === "normalizer" ? by[by.weights.working.of[0]] : null;

/** Whether weights are the softmax of scores. @param {Steps} steps */
const isSoftmax = ({ by }) =>
  Boolean(by.weights && by.weights.working && by.weights.working.numbers.name === "softmax");

/** A number as an answer, right to two decimals. @param {number} value */
const number = (value) => ({ answer: value, shown: short(value), tolerance: Math.max(0.006, 0.006 * Math.abs(value)) });

/** @param {Steps} steps @param {Pick} pick @returns {Exercise | null} */
function product({ by, queries, keys }, pick) {
  const step = by.products || by.scores;
  if (!step || !step.working || step.working.rule !== "dot" || by.query.shape[1] > WIDTH) return null;
  const [q, k] = [pick(each(step.shape[0])), pick(each(step.shape[1]))];
  const place = { q, k, c: 0 };
  return {
    kind: "product",
    words: [queries[q], keys[k]],
    hint: [],
    ...number(step.values[q][k]),
    options: null,
    link: "score",
    of: "",
    place,
  };
}

/** @param {Steps} steps @param {Pick} pick @returns {Exercise | null} */
function scaled({ by, queries, keys }, pick) {
  if (!by.scaled || !by.products) return null;
  const [q, k] = [pick(each(by.scaled.shape[0])), pick(each(by.scaled.shape[1]))];
  const width = by.query.shape[1];
  return {
    kind: "scaled",
    words: [queries[q], keys[k], short(by.products.values[q][k]), String(width)],
    hint: [String(width), significant(Math.sqrt(width))],
    ...number(by.scaled.values[q][k]),
    options: null,
    link: "scale",
    of: "",
    place: { q, k, c: 0 },
  };
}

/** @param {Steps} steps @param {Pick} pick @returns {Exercise | null} */
function masked({ by, queries, keys }, pick) {
  if (!by.masked) return null;
  const { values } = by.masked;
  const mixed = each(values.length).filter((q) => open(values[q]).length && open(values[q]).length < values[q].length);
  if (!mixed.length) return null;
  const q = pick(mixed);
  const hidden = pick(each(values[q].length).filter((k) => values[q][k] === -Infinity));
  return choice("masked", q, hidden, open(values[q]), [queries[q]], keys, "mask");
}

/** @param {Steps} steps @param {Pick} pick @returns {Exercise | null} */
function largest(steps, pick) {
  const scores = scoresOf(steps);
  if (!scores || !isSoftmax(steps)) return null;
  const clear = each(scores.shape[0]).filter((q) => {
    const [first, second] = scores.values[q].filter((score) => score > -Infinity).sort((left, right) => right - left);
    return second < first && open(scores.values[q]).length <= ROW;
  });
  if (!clear.length) return null;
  const q = pick(clear);
  const row = scores.values[q];
  const best = row.indexOf(Math.max(...row));
  const words = [steps.queries[q], "", open(row).map((k) => quoted(steps.keys[k], fixed(row[k], 2)))];
  return choice(
    "largest",
    q,
    best,
    open(row).filter((k) => k !== best),
    words,
    steps.keys,
    "weights",
  );
}

/**
 * @param {string} kind @param {number} q @param {number} right @param {number[]} wrong @param {Exercise["words"]} words
 * @param {string[]} keys @param {string} link @returns {Exercise}
 */
function choice(kind, q, right, wrong, words, keys, link) {
  const options = [right, ...wrong.slice(0, ROW - 1)].sort((left, right) => left - right);
  const place = { q, k: right, c: 0 };
  const names = options.map((k) => keys[k] ?? String(k + 1));
  const answer = options.indexOf(right);
  return { kind, words, hint: [], answer, shown: names[answer], tolerance: 0, options: names, link, of: "", place };
}

/** @param {Steps} steps @param {Pick} pick @param {Set<number>} asked @returns {Exercise | null} */
function share(steps, pick, asked) {
  const scores = scoresOf(steps);
  if (!scores || !isSoftmax(steps)) return null;
  const likely = (/** @type {number} */ q) =>
    open(scores.values[q]).filter((k) => steps.by.weights.values[q][k] > 0.01);
  const spread = fresh(each(scores.shape[0]), asked).filter(
    (q) => open(scores.values[q]).length > 1 && likely(q).length,
  );
  if (!spread.length) return null;
  const q = pick(spread);
  const [row, k] = [scores.values[q], pick(likely(q))];
  const top = Math.max(...row);
  const sum = row.reduce((all, score) => all + Math.exp(score - top), 0);
  return {
    kind: "weight",
    words: [steps.queries[q], steps.keys[k], significant(sum), significant(Math.exp(row[k] - top))],
    hint: [],
    ...number(steps.by.weights.values[q][k]),
    options: null,
    link: "weights",
    of: "",
    place: { q, k, c: 0 },
  };
}

/** @param {Steps} steps @param {Pick} pick @param {Set<number>} asked @returns {Exercise | null} */
function rest(steps, pick, asked) {
  const { weights } = steps.by;
  if (!weights || !isSoftmax(steps)) return null;
  const shared = (/** @type {number[]} */ row) => each(row.length).filter((k) => row[k] > 0.01 && row[k] < 0.99);
  const rows = fresh(each(weights.shape[0]), asked).filter((q) => shared(weights.values[q]).length);
  if (!rows.length) return null;
  const q = pick(rows);
  const row = weights.values[q];
  const k = pick(shared(row));
  return {
    kind: "rest",
    words: [steps.queries[q], steps.keys[k], significant(1 - row[k], 3)],
    hint: [],
    ...number(row[k]),
    options: null,
    link: "weights",
    of: "",
    place: { q, k, c: 0 },
  };
}

/** @param {Steps} steps @param {Pick} pick @param {Set<number>} asked @returns {Exercise | null} */
function output({ by, queries, keys }, pick, asked) {
  const { output: step } = by;
  if (!step || !step.working || step.working.rule !== "mix") return null;
  const [weights, values] = step.working.of.map((name) => by[name]);
  // few keys that count, so that it can be done by hand
  const counted = (/** @type {number[]} */ row) => each(row.length).filter((k) => Math.abs(row[k]) >= 0.005);
  const few = each(step.shape[0]).filter((q) => counted(weights.values[q]).length <= ROW / 2);
  const best = fresh(few, asked).filter((q) => counted(weights.values[q]).length > 1);
  const rows = best.length ? best : fresh(few, asked);
  if (!rows.length) return null;
  const [q, c] = [pick(rows), pick(each(step.shape[1]))];
  const seen = counted(weights.values[q]);
  const places = placesOf(values.values);
  const list = (/** @type {(k: number) => string} */ written) => seen.map((k) => quoted(keys[k], written(k)));
  const sized = number(step.values[q][c]);
  // rounded weights and values make a rounded answer
  const spread = seen.reduce(
    (all, k) => all + 0.0006 * Math.abs(values.values[k][c]) + 0.006 * weights.values[q][k],
    0,
  );
  return {
    kind: "output",
    words: [
      queries[q],
      "",
      list((k) => weight(weights.values[q][k])),
      String(c + 1),
      list((k) => fixed(values.values[k][c], places)),
    ],
    hint: [],
    ...sized,
    tolerance: sized.tolerance + spread + leftOut(weights.values[q], values.values, c, seen),
    options: null,
    link: "out",
    of: "",
    place: { q, k: seen[0] ?? 0, c },
  };
}

/**
 * What the keys that are not listed add to an output, at most.
 * @param {number[]} row @param {number[][]} values @param {number} c @param {number[]} seen
 */
const leftOut = (row, values, c, seen) =>
  row.reduce((all, share, k) => (seen.includes(k) ? all : all + Math.abs(share * values[k][c])), 0);

/** Whether an answer is right; null where it is none. @param {Exercise} exercise @param {string} given */
export function right({ answer, tolerance, options }, given) {
  if (!given.trim()) return null;
  const value = Number(given.trim().replace("−", "-").replace(",", "."));
  if (Number.isNaN(value)) return null;
  return options ? value === answer : Math.abs(value - answer) <= tolerance;
}
