// @ts-check
/** What is shown: one selection that all views share, and its place in the address. */

import { batch, effect, signal } from "./store.js";

/**
 * `long`: its heads are shown as maps of blocks; `whole`: all weights of a layer can be made at once; `compared`: which
 * heads are, at once: those of the "group", of a "layer" or none; `opens`: the layer and the head on which it
 * opens.
 * @typedef {{ name: string, kind: string, layers: string[], heads: number, queries: string[], keys: string[], causal:
 * boolean, long?: boolean, whole?: boolean, compared?: string, opens?: number[] | null }} Group
 */
/** @typedef {{ kind: string, grid?: number[], before?: number, words?: number[], special?: number[] }} Axis */
/**
 * @typedef {{ trace_id: string, places: any, axes: Record<string, { queries: Axis, keys: Axis }>, model: string,
 * source: string, output: string, label?: string, groups: Group[], warnings: string[], change: any }} Trace
 */

const MASKS = ["causal", "padding"];
const SPECIALS = ["", "hide", "share"];
export const VIEWS = ["heat", "links", "text", "table", "needs"];

/**
 * What an address holds, in its order; a number is whole and -1 at least, or its fallback.
 * @type {Record<string, { of: { value: any, peek: () => any }, fallback: any, choices?: string[] }>}
 */
const PARTS = {};

/**
 * A signal that an address holds by a name.
 * @template T @param {string} name @param {T} fallback what it is where the address does not say
 * @param {string[]} [choices] what else it may be
 */
function part(name, fallback, choices) {
  const of = signal(fallback);
  PARTS[name] = { of, fallback, choices };
  return of;
}

export const page = signal("");
export const model = part("m", "");
export const text = part("x", "");
/** Which drawn picture the file is, "" for none: an address holds its name. */
export const sample = part("sample", "");
/** The content of a file in base64, in place of a text and of an example. */
export const upload = signal("");
export const group = part("g", "");
/** -1: the layer on which a group opens. */
export const layer = part("l", -1);
export const head = part("h", 0);
/** The cell that is locked: a query and a key, -1 for none. */
export const query = part("q", -1);
export const key = part("k", -1);
export const scale = part("sc", "sqrt", ["linear", "sqrt", "log"]);
export const view = part("v", "heat", VIEWS);
/** The frame of the film that is shown, -1 for its last, and the probe. */
export const frame = part("s", -1);
export const probe = part("p", -1);
export const language = part("lang", "");
/** Edits of the attention, as `core/edits.js` writes them. */
export const edits = part("e", "");
/** Whether words stand in place of sub-words. */
export const merged = part("w", "", ["1"]);
/** Special tokens: shown, hidden, hidden while the rest shares what they held. */
export const special = part("sp", "", SPECIALS);
/** What steps are looked at with: a temperature from 0.01 to 100, and parts of the mask that are left out. */
export const temperature = part("te", "1");
export const without = part("um", "");
/** What the map holds: weights, or "scores" before they become weights. */
export const stage = part("st", "", ["scores"]);
/** The method of attribution whose numbers the map holds in place of both; none: "". */
export const by = part("by", "");
/** A map of a long input: the largest weight of each block, or "mean". */
export const pooled = part("po", "", ["mean"]);
/** Links: the heads beside the chosen one, as "0.2", or what fits; how much of each row is drawn, in percent. */
export const beside = part("hs", "");
export const mass = part("ma", 90);
/** Text: what the chosen query attends to, or from where the chosen key is attended to ("keys"). */
export const direction = part("tx", "", ["keys"]);
/** Of the page Trace: the step that is open, the matrix in it, a column; the example without a run; numbers in all. */
export const link = part("tr", "");
export const matrix = part("of", "");
export const column = part("c", 0);
export const textbook = part("bk", "", ["1"]);
export const numbers = part("al", "", ["1"]);
export const sorted = part("so", "", ["1"]);
/** Whether products are scaled, other than a layer does it, and whether a causal mask is put in. */
export const scaling = part("sd", "", ["on", "off"]);
export const causal = part("ca", "", ["1"]);
/** Of Trace, whether vectors stand as columns ("1"): O = V softmax(K⊤ Q). */
export const vectors = part("vc", "", ["1"]);
/** The page that writes: hypotheses and tokens (0: as the recipe says), forced tokens, step and beam. */
export const beams = part("b", 0);
export const most = part("max", 0);
export const forced = part("f", "");
export const step = part("t", -1);
export const node = part("nd", -1);
/** -1: the mean; -2: where the page opens. */
export const ofLayer = part("tl", -2);
export const ofHead = part("th", -2);
/** What is compared with the selection above. */
export const other = {
  model: part("m2", ""),
  text: part("x2", ""),
  group: part("g2", ""),
  layer: part("l2", -1),
  /** -1: the mean of all heads; -2: the head of the first side, or the next one where nothing else differs. */
  head: part("h2", -2),
  edits: part("e2", ""),
};
/** "1": a text is read as it is, though the model has a chat template. */
export const plain = part("pl", "", ["1"]);
/** The number of an example of the run's own data, in place of a text; -1 for none. */
export const example = part("ex", -1);
/** What the pages of positions, images and graphs keep besides. */
export const first = part("pa", "sinusoidal");
export const second = part("pb", "alibi");
export const count = part("n", 64);
export const width = part("d", 32);
export const base = part("ba", 10000);
export const spot = part("at", 8);
export const each = part("ea", "");
export const hops = part("hp", 1);
export const loops = part("sl", "");
/** The step of the training whose checkpoint is looked at; -1: the model of the run. */
export const checkpoint = part("ck", -1);
/** Of a comparison, whether each side is the mean of its heads ("1") or one of them ("0"); "": as it fits. */
export const averaged = part("mh", "", ["0", "1"]);

/** The cell with the largest weight of the head that is shown, which is looked at until another one is locked. */
export const strongest = signal(/** @type {{ q: number, k: number } | null} */ (null));
/** The part of a large map that is seen: its first column and row, and how many times as large as all of it. */
export const span = signal({ x: 0, y: 0, times: 1 });
/** Whether the colours are those of the dark. */
export const dark = signal(false);
/** The name of the ramp of the page as it is now. */
export const inks = () => (dark.value ? "ink dark" : "ink light");
/** That of numbers with signs. */
export const signs = () => (dark.value ? "diverging dark" : "diverging");

/** Whether keys of one letter do something. */
export const singles = signal(told("headwise.letters") !== "off");

/** Whether they do from now on, also in the next page. @param {boolean} on */
export function letters(on) {
  singles.value = on;
  try {
    localStorage.setItem("headwise.letters", on ? "on" : "off");
  } catch {
    // a page without a place to remember forgets it
  }
}

/** What this browser was told before. @param {string} name */
function told(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** The cell under the pointer. */
export const hovered = signal(/** @type {{ q: number, k: number } | null} */ (null));
export const trace = signal(/** @type {Trace | null} */ (null));
export const meta = signal(/** @type {any} */ (null));
export const status = signal("");
/** Says what failed. @param {Error} error */
export const failed = ({ message }) => void (status.value = message);
/** What the line at the foot says only to those who hear the page, as it is seen elsewhere. */
export const heard = signal("");

/** Says something at the foot. @param {string} words @param {boolean} seen whether they stand elsewhere */
export const say = (words, seen) =>
  batch(() => {
    heard.value = seen ? words : "";
    status.value = words;
  });
/** Why there is no trace of what is asked for. */
export const problem = signal(/** @type {{ message: string, kind?: string } | null} */ (null));

/** What changes too often to be worth a way back. */
const PASSING = ["t"];

/** Weights or raw scores, of which there is a map alone. @param {string} name */
export function ofStage(name) {
  batch(() => {
    stage.value = name;
    by.value = "";
    if (name) view.value = "heat";
  });
}

/** What counts by a method of attribution, of which there is a map alone. @param {string} name */
export function ofMethod(name) {
  batch(() => {
    ofStage(name ? "" : stage.value);
    by.value = name;
    if (name) view.value = "heat";
  });
}

/** The method whose numbers are shown, which only a map shows; none: "". */
export const method = () => (view.value === "heat" ? by.value : "");

export const scaled = () => (scale.value = { sqrt: "linear", linear: "log", log: "sqrt" }[scale.value] || "sqrt");

/** A part of the mask is left out, or not. @param {string} name @param {boolean} out */
export function leaveOut(name, out) {
  const before = without.peek().split(",");
  without.value = MASKS.filter((one) => (one === name ? out : before.includes(one))).join(",");
}

/** Steps as the model did them. */
export function asItWas() {
  batch(() => {
    temperature.value = "1";
    for (const part of [without, scaling, causal]) part.value = "";
  });
}

/** Words or sub-words, whichever it is not. */
export const mergedNext = () => (merged.value = merged.value ? "" : "1");

/** What becomes of special tokens next. */
export const specialNext = () => (special.value = SPECIALS[(SPECIALS.indexOf(special.value) + 1) % SPECIALS.length]);

/** The query that is looked at: under the pointer, else the locked one. */
export const lookedAt = () => (hovered.value ? hovered.value.q : query.value);

/** @param {{ q: number, k: number }} at */
export const lock = ({ q, k }) =>
  batch(() => {
    query.value = q;
    key.value = k;
  });

/** The cell that is looked at: the locked query, key or pair, else that with the largest weight. */
export function cell() {
  const locked = { q: query.value, k: key.value };
  return locked.q < 0 && locked.k < 0 && strongest.value ? strongest.value : locked;
}

/**
 * The group of a name; without one what the task is about: what reads another sequence or gives the answer, then the
 * decoder.
 * @param {Group[]} groups @param {string} name
 */
export const groupOf = (groups, name) =>
  groups.find((one) => one.name === name) ||
  groups.find((one) => one.kind === "cross") ||
  groups.find((one) => one.kind !== "self") ||
  groups.find((one) => one.name.startsWith("decoder")) ||
  groups[0];

/** @returns {Group | null} */
export const chosen = () => groupOf(trace.value ? trace.value.groups : [], group.value) || null;

/**
 * The place of a layer within its group; -1 is where the group opens: as it says, else at the last layer that reads
 * another sequence or an image, else at the first.
 * @param {Group} group @param {number} value
 */
export function layerWithin({ name, kind, layers, opens }, value) {
  const axes = trace.value && trace.value.axes ? trace.value.axes[name] : null;
  const last = kind === "cross" || (axes && axes.keys.kind === "patches");
  return Math.min(value < 0 ? (opens ? opens[0] : last ? layers.length : 0) : value, layers.length - 1);
}

/** The layer and the head that are chosen, within those of a group. @param {Group} group */
export function place(group) {
  const at = layerWithin(group, layer.value);
  const now = layer.value < 0 && !head.value && group.opens ? group.opens[1] : head.value;
  return { at, layer: group.layers[at], head: Math.min(Math.max(0, now), group.heads - 1) };
}

/**
 * Another layer of a group, another head (-1: all of them), or both; what is not named stays.
 * @param {Group} group @param {{ at?: number, head?: number }} to
 */
export function go(group, to) {
  const now = place(group);
  batch(() => {
    layer.value = to.at ?? now.at;
    head.value = to.head ?? (head.value < 0 ? -1 : now.head);
  });
}

/** Whether row and column i are the same position. @param {Group} group */
export const oneSequence = (group) => group.kind === "self" && group.queries.length === group.keys.length;

/** Takes the selection from the address; what is out of range becomes the default. */
function readAddress() {
  const [path, rest] = location.hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(rest || "");
  batch(() => {
    if (sample.value !== (given.get("sample") || "")) upload.value = "";
    page.value = path;
    for (const [name, { of, fallback, choices }] of Object.entries(PARTS)) {
      const value = given.get(name);
      const number = Number(value);
      if (value === null) of.value = fallback;
      else if (typeof fallback === "number")
        of.value = Number.isInteger(number) && number >= Math.min(fallback, -1) ? number : fallback;
      else if (choices) of.value = choices.includes(value) ? value : fallback;
      else if (name === "te") of.value = number >= 0.01 && number <= 100 ? String(number) : fallback;
      else if (name === "um") of.value = value.split(",").every((one) => MASKS.includes(one)) ? value : fallback;
      else of.value = value;
    }
  });
}

/**
 * The address of what is shown, with a page of another name if one is given.
 * @param {string} [other] @param {string[]} [without] parts that are left out
 * @param {Record<string, any>} [given] values in place of those that are shown
 */
export function address(other, without = [], given = {}) {
  const values = new URLSearchParams();
  for (const [name, { of, fallback }] of Object.entries(PARTS)) {
    if (without.includes(name)) continue;
    const value = given[name] ?? of.value;
    if (value !== fallback) values.set(name, String(value));
  }
  const rest = values.toString();
  return `#/${other === undefined ? page.value : other}${rest ? `?${rest}` : ""}`;
}

let gliding = false;

/**
 * A change that Back does not undo: one of many that follow each other, as of a slider, or one that nobody asked for.
 * @param {() => void} work
 */
export function instead(work) {
  gliding = true;
  try {
    work();
  } finally {
    gliding = false;
  }
}

/** What the service says of the chosen run, else of the first. */
export function chosenRun() {
  const models = meta.value ? meta.value.models : [];
  return models.find((/** @type {any} */ one) => one.name === model.value) || models[0];
}

/** What the chosen run reads: "text", "image", "node" ... @returns {string} */
export const reads = () => (chosenRun() ? chosenRun().input : "");

/** Whether the address names a run that is not served. */
export const strays = () =>
  Boolean(model.value && meta.value?.models.length) &&
  !meta.value.models.some((/** @type {any} */ one) => one.name === model.value);

/** What the run lacks for a page: its own need, "any" run, or "". @param {string} page */
export function lacks(page) {
  const run = chosenRun();
  if (!run) return ["attend", "translate", "vision", "graph", "film"].includes(page) ? "any" : "";
  const { input, writes, film } = run;
  const graph = /^(node|molecule)$/.test(input);
  return { vision: input === "image", graph, translate: writes, film }[page] === false ? page : "";
}

/** Whether a chat template writes what the chosen run reads. */
export const chats = () => Boolean(chosenRun() && chosenRun().chat);

/** The page that shows best what the chosen run reads. */
export const best = () => ({ image: "vision", node: "graph", molecule: "graph" })[reads()] || "attend";

/** Another group of layers, from its first head. @param {string} name */
export function inGroup(name) {
  batch(() => {
    layer.value = -1;
    head.value = 0;
    beside.value = "";
    query.value = -1;
    key.value = -1;
    span.value = { x: 0, y: 0, times: 1 };
    group.value = name;
  });
}

/** Another run; its inputs are others. @param {string} name */
export function pick(name) {
  batch(() => {
    give({});
    inGroup("");
    checkpoint.value = -1;
    model.value = name;
  });
}

/** The input as a request has it; null where there is none. */
export function asked() {
  if (upload.value) return { file: upload.value };
  if (example.value >= 0) return { example: example.value };
  return text.value ? { text: text.value, ...(chats() && plain.value ? { chat: false } : {}) } : null;
}

/** Whether the chosen run reads files, so that its inputs are asked for by number. */
export const readsFiles = () => ["image", "sound", "series"].includes(reads());

/** @param {string} typed */
export const type = (typed) =>
  give(readsFiles() && /^\d+$/.test(typed.trim()) ? { example: Number(typed) } : { text: typed });

/** What another input does not keep. */
export const OF_INPUT = ["q", "k", "f", "t", "nd"];

/** Another input, of one kind. @param {{ text?: string, example?: number, upload?: string, sample?: string }} given */
export function give(given) {
  batch(() => {
    for (const name of OF_INPUT) PARTS[name].of.value = PARTS[name].fallback;
    span.value = { x: 0, y: 0, times: 1 };
    text.value = given.text || "";
    example.value = given.example === undefined ? -1 : given.example;
    upload.value = given.upload || "";
    sample.value = given.sample || "";
  });
}

/** Keeps the address and the selection equal from now on. */
export function followAddress() {
  readAddress();
  window.addEventListener("popstate", readAddress);
  let lasting = "";
  effect(() => {
    const next = address();
    const before = lasting;
    lasting = address(undefined, PASSING);
    if (next === location.hash || (next === "#/" && !location.hash)) return;
    if (gliding || before === lasting) history.replaceState(null, "", next);
    else history.pushState(null, "", next);
  });
}
