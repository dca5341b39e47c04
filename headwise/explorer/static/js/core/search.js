// @ts-check
/** A search as it is told, line by line: its steps, the tree of its beginnings, and where each of them looks. */

import { numbers } from "./npy.js";

/**
 * @typedef {{ id: number, parent: number, token: number, text: string, logp: number, score: number, done: boolean, t:
 * number }} Beam
 */
/** @typedef {{ token: number, text: string, logp: number }} Likely */
/** @typedef {{ ids: number[], likely: Likely[][], shape: number[], looks: Float32Array | null }} Step */
/**
 * `end` is null while it is written; `first` are the labels of what was read, `pixels` of a picture.
 * @typedef {{ start: any, first: string[], own: boolean, pixels: import("./npy.js").Numbers | null, steps: Step[],
 * beams: Map<number, Beam>, end: any }} Search
 */

/** A search of which nothing is known yet. @returns {Search} */
export const begun = () => ({
  start: null,
  first: [],
  own: false,
  pixels: null,
  steps: [],
  beams: new Map(),
  end: null,
});

/** @param {Search} search @param {any} line */
export function take(search, line) {
  if (line.start) {
    search.start = line.start;
    search.first = line.start.axes.src;
    search.own = line.start.kind === "self";
    const image = line.start.image;
    search.pixels = image ? { shape: image.pixels.shape, data: unpacked(image.pixels) } : null;
  } else if (line.step) {
    const t = line.step.t;
    for (const beam of line.step.beams) search.beams.set(beam.id, { t, ...search.beams.get(beam.id), ...beam });
    const { cross, topk } = line.step;
    search.steps[t] = {
      ids: topk.map((/** @type {any} */ one) => one.id),
      likely: topk.map((/** @type {any} */ one) => one.tokens),
      shape: cross ? cross.shape : [0, 0, 0, 0],
      looks: cross ? /** @type {Float32Array} */ (unpacked(cross)) : null,
    };
  } else if (line.end) search.end = line.end;
}

/** @param {{ b64: string, dtype: string, shape: number[] }} packed */
function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed.b64), (letter) => letter.charCodeAt(0));
  const count = packed.shape.reduce((all, one) => all * one, 1);
  return numbers(packed.dtype, bytes.buffer, 0, count);
}

/**
 * What an answer shows: the best hypothesis, while it is written the best beam of the latest step; 0 for none.
 * @param {Search} search
 */
export function best(search) {
  const found = search.end && search.end.hypotheses.length ? search.end.hypotheses[0].id : null;
  if (found !== null) return found;
  const last = search.steps.length - 1;
  let top = 0;
  for (const beam of search.beams.values()) {
    if (beam.t === last && (!top || beam.score > /** @type {Beam} */ (search.beams.get(top)).score)) top = beam.id;
  }
  return top;
}

/** The beams from the first token to this one. @param {Search} search @param {number} id */
export function pathTo(search, id) {
  const found = [];
  for (let beam = search.beams.get(id); beam; beam = search.beams.get(beam.parent)) found.unshift(beam);
  return found;
}

/** What was likely where a beam was chosen; empty where that is not known. @param {Search} search @param {Beam} beam */
export function likelyAt(search, beam) {
  const step = search.steps[beam.t];
  return step ? step.likely[step.ids.indexOf(beam.parent)] || [] : [];
}

/**
 * Where the model looked as it said a beam's token: one layer and head, or the mean over them for -1.
 * @param {Search} search @param {Beam} beam @param {number} layer @param {number} head @returns {Float32Array | null}
 */
export function lookOf(search, beam, layer, head) {
  const step = search.steps[beam.t];
  const row = step ? step.ids.indexOf(beam.parent) : -1;
  if (!step || !step.looks || row < 0) return null;
  const [, layers, heads, keys] = step.shape;
  const chosen = (/** @type {number} */ at, /** @type {number} */ count) =>
    at >= 0 && at < count ? [at] : Array.from({ length: count }, (_, each) => each);
  const [ofLayers, ofHeads] = [chosen(layer, layers), chosen(head, heads)];
  const found = new Float32Array(keys);
  for (const l of ofLayers) {
    for (const h of ofHeads) {
      const at = ((row * layers + l) * heads + h) * keys;
      for (let k = 0; k < keys; k += 1) found[k] += step.looks[at + k] / (ofLayers.length * ofHeads.length);
    }
  }
  return found;
}

/**
 * The looks of a path as a matrix, a row a token; what a token could not see yet is minus infinity.
 * @param {Search} search @param {Beam[]} path @param {number} layer @param {number} head
 */
export function alignment(search, path, layer, head) {
  const rows = path.map((beam) => lookOf(search, beam, layer, head));
  const written = search.own ? path.slice(0, -1).map((beam) => beam.text) : [];
  const keys = [...search.first, ...written];
  const weights = new Float32Array(rows.length * keys.length).fill(-Infinity);
  rows.forEach((row, q) => weights.set((row || new Float32Array(0)).subarray(0, keys.length), q * keys.length));
  return { weights, queries: path.map((beam) => beam.text), keys };
}
