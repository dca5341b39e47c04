// @ts-check
/** A matrix of tokens as one of words: sub-words merged, special tokens left out; what each row and column holds. */

/** @typedef {{ words?: number[], special?: number[] }} Spelled what is known of the tokens of a side */
/** @typedef {{ merged: boolean, special: "" | "hide" | "share" }} Options */
/** @typedef {{ weights: Float32Array, queries: string[], keys: string[] }} Matrix */
/**
 * @typedef {Matrix & { rows: number[][], columns: number[][], left: number }} Folded `left`: mean share of a row that
 * is shown
 */

/**
 * Weights of a merged word are summed over its keys and averaged over its queries. Hidden special tokens take theirs
 * with them, unless the rest of a row shares it ("share": rows keep their sums).
 * @param {Matrix} matrix a pair that a mask forbids is minus infinity
 * @param {{ queries: Spelled, keys: Spelled }} spelled @param {Options} options @returns {Folded}
 */
export function folded({ weights, queries, keys }, spelled, options) {
  const rows = parts(queries.length, spelled.queries, options);
  const columns = parts(keys.length, spelled.keys, options);
  const shown = {
    queries: rows.map((part) => joined(queries, part)),
    keys: columns.map((part) => joined(keys, part)),
    rows,
    columns,
  };
  if (rows.length === queries.length && columns.length === keys.length) return { weights, ...shown, left: 1 };
  const shares = rows.flat().map((q) => share(weights, q, columns, keys.length));
  const left = shares.reduce((all, one) => all + one, 0) / Math.max(1, shares.length);
  const found = new Float32Array(rows.length * columns.length);
  rows.forEach((part, r) => {
    const factors = part.map(
      (q) => (options.special === "share" ? shared(share(weights, q, columns, keys.length)) : 1) / part.length,
    );
    columns.forEach((held, c) => {
      found[r * columns.length + c] = cell(weights, part, held, factors, keys.length);
    });
  });
  return { weights: found, ...shown, left: options.special === "share" ? 1 : left };
}

/**
 * The tokens of each row or column, in their order. A side of special tokens alone keeps them.
 * @param {number} length @param {Spelled} spelled @param {Options} options
 */
export function parts(length, { words = [], special = [] }, { merged, special: how }) {
  const hidden = new Set(how && special.length < length ? special : []);
  /** @type {number[][]} */
  const found = [];
  for (let token = 0; token < length; token += 1) {
    const last = found[found.length - 1];
    // a word goes on where its last token stands right before
    const goesOn =
      merged && last && words[token] >= 0 && last[last.length - 1] === token - 1 && words[token] === words[token - 1];
    if (hidden.has(token)) continue;
    if (goesOn) last.push(token);
    else found.push([token]);
  }
  return found;
}

/** Whether any word has several tokens. @param {Spelled} spelled */
export const splits = ({ words = [] }) =>
  words.some((word, token) => token > 0 && word >= 0 && word === words[token - 1]);

/** The row or column that holds a token; -1 where none does. @param {number[][]} held @param {number} token */
export const holding = (held, token) => (token < 0 ? -1 : held.findIndex((part) => part.includes(token)));

/** All parts of a character in their order, as "é(1/2)" and "é(2/2)". */
const PARTS = /(.)\(1\/([2-4])\)(?:\1\([2-4]\/\2\))+/gu;

/** @param {string[]} labels @param {number[]} part */
export const joined = (labels, part) =>
  part.length < 2
    ? labels[part[0]]
    : part
        .map((token, at) => labels[token].replace(at ? /^##/ : /^\u2581/, ""))
        .join("")
        .replace(PARTS, "$1");

/**
 * How much of a row is in the columns that are shown.
 * @param {Float32Array} weights @param {number} q @param {number[][]} columns @param {number} length
 */
function share(weights, q, columns, length) {
  let [all, kept] = [0, 0];
  for (let k = 0; k < length; k += 1) all += finite(weights[q * length + k]);
  for (const part of columns) for (const k of part) kept += finite(weights[q * length + k]);
  return all > 0 ? kept / all : 1;
}

/**
 * What the rest of a row is multiplied by; 1 where it has none to share, as where weights below zero cancel.
 * @param {number} left
 */
const shared = (left) => (left > 0 ? 1 / left : 1);

/**
 * @param {Float32Array} weights @param {number[]} down @param {number[]} across @param {number[]} factors
 * @param {number} length
 */
function cell(weights, down, across, factors, length) {
  let [sum, open] = [0, false];
  down.forEach((q, at) => {
    for (const k of across) {
      const weight = weights[q * length + k];
      if (weight === -Infinity) continue;
      open = true;
      sum += weight * factors[at];
    }
  });
  return open ? sum : -Infinity;
}

/** @param {number} weight */
const finite = (weight) => (weight === -Infinity ? 0 : weight);

/**
 * The weights of merged words as means over the tokens of a key, so that a long word is no darker.
 * @param {{ weights: Float32Array, columns: number[][] }} matrix
 */
export const perPiece = ({ weights, columns }) =>
  weights.map((weight, at) => weight / columns[at % columns.length].length);
