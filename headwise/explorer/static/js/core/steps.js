// @ts-check
/** The steps of a head as the server computed them, the thread that they are shown as, and how a number is made. */

/** @typedef {{ rule: string, of: string[], numbers: Record<string, any> }} Working */
/**
 * @typedef {{ name: string, symbol: string, formula: string, text: string, axes: string[], shape: number[],
 *   values: number[][], planes?: number[][][] | null, working?: Working, columns?: string }} Step `planes` of a step
 *   of three axes: a matrix for each query; `columns`: its formula where vectors are columns
 */
/**
 * @typedef {{ layer: string, head: number, queries: string[], keys: string[], difference: number, steps: Step[],
 *   by: Record<string, Step>, parameters: Record<string, number[][]> }} Steps
 */
/** @typedef {{ id: string, steps: Step[], before: Step[] }} Link a part of the thread; `before` are shown with it */
/** @typedef {{ q: number, k: number, c: number }} Place a query, a key, and a column of what is neither */

/** The link that a step belongs to; one that is not here has its own. @type {Record<string, string>} */
const LINKS = {
  input: "input",
  memory: "input",
  "plain query": "project",
  "plain key": "project",
  value: "project",
  "normed query": "norm",
  "normed key": "norm",
  "query features": "features",
  "key features": "features",
  "score query": "features",
  "score key": "features",
  "query part": "features",
  "key part": "features",
  products: "score",
  scores: "score",
  scaled: "scale",
  bias: "added",
  relative: "added",
  biased: "added",
  masked: "mask",
  tempered: "temper",
  weights: "weights",
  "changed weights": "changed",
  "weighted values": "mix",
  output: "out",
  joined: "layer",
  "layer output": "layer",
};

/** @param {any} answer of the server @returns {Steps} */
export function parseSteps(answer) {
  const finite = (/** @type {any[]} */ row) => row.map((value) => (value === null ? -Infinity : value));
  const parsed = answer.steps.map((/** @type {any} */ step) => {
    const planes =
      step.shape.length === 3 ? step.values.map((/** @type {any[][]} */ plane) => plane.map(finite)) : null;
    const values = planes ? planes[0] : step.values.map(finite);
    const symbol = step.symbol
      .replace(/\\phi/g, "φ")
      .replace(/_(\d)/g, (/** @type {any} */ _, /** @type {string} */ at) => "₀₁₂"[Number(at)]);
    return { ...step, symbol, axes: step.axes.slice(-2), shape: step.shape.slice(-2), values, planes };
  });
  const parameters = Object.fromEntries(
    Object.entries(answer.parameters).map(([name, array]) => [name, decoded(/** @type {any} */ (array))]),
  );
  const by = Object.fromEntries(parsed.map((/** @type {Step} */ step) => [step.name, step]));
  const { shape } = by.weights || { shape: [answer.queries.length, answer.keys.length] };
  const [queries, keys] = [answer.queries, answer.keys].map((labels, side) =>
    labels.length === shape[side] ? labels : Array.from({ length: shape[side] }, (_, at) => String(at + 1)),
  );
  return { ...answer, queries, keys, steps: parsed, by, parameters };
}

/** @param {{ shape: number[], base64: string }} array */
function decoded({ shape, base64 }) {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const numbers = new Float32Array(bytes.buffer);
  const width = shape.length > 1 ? shape[1] : 1;
  return Array.from({ length: shape[0] }, (_, row) => Array.from(numbers.subarray(row * width, (row + 1) * width)));
}

/** The link in which a step is made. @param {Step} step */
export function linkOf({ name, working }) {
  if (name !== "query" && name !== "key") return LINKS[name] || name;
  if (!working || working.rule === "linear") return "project";
  return working.rule === "norm" ? "norm" : "turn";
}

/**
 * The thread from input to output; scale and mask have their place where a layer has neither, and values
 * times weights theirs.
 * @param {Steps} steps @param {Place} place
 */
export function thread({ steps: all, by }, place) {
  const links = /** @type {Link[]} */ ([]);
  const put = (/** @type {string} */ id, /** @type {Step[]} */ members) =>
    links.push({ id, steps: members, before: [] });
  for (const parsed of all) {
    const step = parsed.planes ? { ...parsed, values: parsed.planes[place.q] || parsed.values } : parsed;
    const id = linkOf(step);
    const link = links.find((link) => link.id === id);
    if (link) link.steps.push(step);
    else put(id, [step]);
  }
  const at = (/** @type {string} */ id) => links.findIndex((link) => link.id === id);
  if (by.weights && by.weights.working && by.weights.working.rule === "normalizer") {
    const [score, source] = [at("score"), by.masked || by.biased || by.scaled || by.scores || by.products];
    const products = by.scores && by.scores.working && by.scores.working.rule === "dot";
    if (at("scale") < 0 && products) links.splice(score + 1, 0, { id: "scale", steps: [], before: [by.scores] });
    if (at("mask") < 0)
      links.splice(at("weights") - (by.tempered ? 1 : 0), 0, { id: "mask", steps: [], before: [source] });
  }
  const out = at("out");
  if (by.output && by.output.working && by.output.working.rule === "mix") {
    const [weights, value] = by.output.working.of.map((name) => by[name]);
    const values = value.values.map((row, k) => row.map((number) => number * weights.values[place.q][k]));
    const weighted = {
      ...value,
      name: "weighted values",
      symbol: "aV",
      formula: "a_{j} v_{j}",
      columns: "",
      values,
      working: { rule: "weighted", of: by.output.working.of, numbers: { q: place.q } },
    };
    links.splice(out, 0, { id: "mix", steps: [weighted], before: [value] });
  }
  const alone = new Set(["project", "input", "out", "layer", "mix"]);
  for (const link of links.filter(({ id, steps: members }) => members.length && !alone.has(id))) {
    const names = new Set(link.steps.flatMap((step) => (step.working ? step.working.of : [])));
    link.before = [...names].map((name) => by[name]).filter((step) => step && !link.steps.includes(step));
  }
  return links;
}

/** The step of a link whose number is worked. @param {Link} link @param {string} of the name of one */
export const chosenStep = (link, of) =>
  link.steps.find((step) => step.name === of) ||
  (["added", "layer"].includes(link.id) ? link.steps[link.steps.length - 1] : link.steps[0]);

/** The row and the column of a step at a place. @param {Step} step @param {Place} place @returns {[number, number]} */
export function cellOf({ axes, shape }, { q, k, c }) {
  const along = (/** @type {number} */ axis) => (axes[axis] === "queries" ? q : axes[axis] === "keys" ? k : c);
  return [Math.min(along(0), shape[0] - 1), Math.min(along(1), shape[1] - 1)];
}

/** The place after a cell of a step is chosen. @param {Step} step @param {number} row @param {number} column */
export function placeOf({ axes }, row, column) {
  const place = /** @type {Partial<Place>} */ ({});
  [row, column].forEach((at, axis) => (place[axes[axis] === "queries" ? "q" : axes[axis] === "keys" ? "k" : "c"] = at));
  return place;
}

/** Whether rows are queries and columns are keys. @param {Step} step */
export const ofPairs = ({ axes }) => axes[0] === "queries" && axes[1] === "keys";

/**
 * The factors whose products are a number, where it is a sum of products.
 * @param {Steps} steps @param {Step} step @param {number} row @param {number} column
 * @returns {{ left: number[], right: number[], more: number, factor: number } | null} `more` is added at the end
 */
export function factors({ by, parameters }, step, row, column) {
  const { rule, of, numbers } = step.working || { rule: "", of: [], numbers: {} };
  const [a, b] = of.map((name) => by[name]);
  if (rule === "linear") {
    const more = numbers.bias ? parameters[numbers.bias][column][0] : 0;
    return { left: a.values[row], right: parameters[numbers.matrix][column], more, factor: 1 };
  }
  if (rule === "dot") return { left: a.values[row], right: b.values[column], more: 0, factor: numbers.factor ?? 1 };
  if (rule === "additive") {
    const { slope, vector } = numbers;
    const activation = (/** @type {number} */ sum) =>
      slope === undefined ? Math.tanh(sum) : sum > 0 ? sum : slope * sum;
    const right = a.values[row].map((value, f) => activation(value + b.values[column][f]));
    return { left: vector, right, more: 0, factor: 1 };
  }
  if (rule === "rotation") {
    const partner = numbers.partner[column];
    const [left, right] = [a.values[row][column], a.values[row][partner]];
    return { left: [left, right], right: [numbers.cos[row][column], numbers.sin[row][column]], more: 0, factor: 1 };
  }
  return null;
}
