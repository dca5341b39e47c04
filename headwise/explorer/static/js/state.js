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

/** @type {Record<string, any>} */
export const DEFAULTS = {
  page: "",
  m: "",
  x: "",
  sample: "",
  g: "",
  l: -1,
  h: 0,
  q: -1,
  k: -1,
  sc: "sqrt",
  v: "heat",
  s: -1,
  p: -1,
  lang: "",
  e: "",
  w: "",
  sp: "",
  te: "1",
  um: "",
  st: "",
  by: "",
  po: "",
  hs: "",
  ma: 90,
  tx: "",
  tr: "",
  of: "",
  c: 0,
  bk: "",
  al: "",
  so: "",
  sd: "",
  ca: "",
  vc: "",
};
const NUMBERS = new Set(["l", "h", "q", "k", "s", "p", "ma", "c"]);
// the second side of a comparison
Object.assign(DEFAULTS, { m2: "", x2: "", g2: "", l2: -1, h2: -2, e2: "" });
["l2", "h2"].forEach((name) => NUMBERS.add(name));
const MASKS = ["causal", "padding"];
const SPECIALS = ["", "hide", "share"];
export const VIEWS = ["heat", "links", "text", "table", "needs"];
/** @type {Record<string, string[]>} */
const CHOICES = {
  sc: ["linear", "sqrt", "log"],
  sp: SPECIALS,
  st: ["scores"],
  po: ["mean"],
  w: ["1"],
  v: VIEWS,
  tx: ["keys"],
  bk: ["1"],
  al: ["1"],
  so: ["1"],
  sd: ["on", "off"],
  ca: ["1"],
  vc: ["1"],
};

export const page = signal("");
export const model = signal("");
/** The number of an example of the run's own data, in place of a text; -1 for none. */
export const example = signal(-1);
/** The content of a file in base64, in place of both. */
export const upload = signal("");
/** Which drawn picture that file is, "" for none: an address holds its name. */
export const sample = signal("");
export const text = signal("");
export const group = signal("");
/** -1: the layer on which a group opens. */
export const layer = signal(-1);
export const head = signal(0);
/** The cell that is locked: a query and a key, -1 for none. */
export const query = signal(-1);
export const key = signal(-1);
export const scale = signal("sqrt");
export const view = signal("heat");
/** The frame of the film that is shown, -1 for its last, and the probe. */
export const frame = signal(-1);
export const probe = signal(-1);
export const language = signal("");
/** Edits of the attention, as `core/edits.js` writes them. */
export const edits = signal("");
/** What the map holds: weights, or "scores" before they become weights. */
export const stage = signal("");
/** The method of attribution whose numbers the map holds in place of both; none: "". */
export const by = signal("");
/** A map of a long input: the largest weight of each block, or "mean". */
export const pooled = signal("");
/** Links: the heads beside the chosen one, as "0.2", or what fits; how much of each row is drawn, in percent. */
export const beside = signal("");
export const mass = signal(90);
/** Text: what the chosen query attends to, or from where the chosen key is attended to ("keys"). */
export const direction = signal("");
/** The cell with the largest weight of the head that is shown, which is looked at until another one is locked. */
export const strongest = signal(/** @type {{ q: number, k: number } | null} */ (null));
/** What is compared with the selection above. */
export const other = {
  model: signal(""),
  text: signal(""),
  group: signal(""),
  layer: signal(-1),
  /** -1: the mean of all heads; -2: the head of the first side, or the next one where nothing else differs. */
  head: signal(-2),
  edits: signal(""),
};
/**
 * Whether words stand in place of sub-words; special tokens: shown, hidden, hidden while the rest shares what they
 * held.
 */
export const merged = signal("");
export const special = signal("");
/** What steps are looked at with: a temperature from 0.01 to 100, and parts of the mask that are left out. */
export const temperature = signal("1");
export const without = signal("");
/** Whether products are scaled, other than a layer does it, and whether a causal mask is put in. */
export const scaling = signal("");
export const causal = signal("");
/** Of the page Trace: the step that is open, the matrix in it, a column; the example without a run; numbers in all. */
export const link = signal("");
export const matrix = signal("");
export const column = signal(0);
export const textbook = signal("");
export const numbers = signal("");
/** Of Trace, whether vectors stand as columns ("1"): O = V softmax(K⊤ Q). */
export const vectors = signal("");
export const sorted = signal("");
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
/** Why there is no trace of what is asked for. */
export const problem = signal(/** @type {{ message: string, kind?: string } | null} */ (null));

/** @type {Record<string, any>} */
const PARTS = {
  m: model,
  x: text,
  sample,
  g: group,
  l: layer,
  h: head,
  q: query,
  k: key,
  sc: scale,
  v: view,
  s: frame,
  p: probe,
  lang: language,
  e: edits,
  w: merged,
  sp: special,
  te: temperature,
  um: without,
  st: stage,
  by,
  po: pooled,
  hs: beside,
  ma: mass,
  tx: direction,
  tr: link,
  of: matrix,
  c: column,
  bk: textbook,
  al: numbers,
  so: sorted,
  sd: scaling,
  ca: causal,
  vc: vectors,
};
/**
 * The page that writes: hypotheses and tokens (0: as the recipe says), forced tokens, step, beam, layer and head (-1:
 * all).
 */
export const beams = signal(0);
export const most = signal(0);
export const forced = signal("");
export const step = signal(-1);
export const node = signal(-1);
/** -1: the mean; -2: where the page opens. */
export const ofLayer = signal(-2);
export const ofHead = signal(-2);
Object.assign(PARTS, { b: beams, max: most, f: forced, t: step, nd: node, tl: ofLayer, th: ofHead });
Object.assign(DEFAULTS, { b: 0, max: 0, f: "", t: -1, nd: -1, tl: -2, th: -2 });
["b", "max", "t", "nd", "tl", "th"].forEach((name) => NUMBERS.add(name));
/** Numbers of which -2 says that none is chosen. */
const UNSET = new Set(["h2", "tl", "th"]);
/** What changes too often to be worth a way back. */
const PASSING = ["t"];
Object.assign(PARTS, {
  m2: other.model,
  x2: other.text,
  g2: other.group,
  l2: other.layer,
  h2: other.head,
  e2: other.edits,
});

/** "1": a text is read as it is, though the model has a chat template. */
export const plain = signal("");
Object.assign(DEFAULTS, { pl: "" });
Object.assign(PARTS, { pl: plain });
CHOICES.pl = ["1"];

/** What the pages of positions, images and graphs keep besides. */
export const first = signal("sinusoidal");
export const second = signal("alibi");
export const count = signal(64);
export const width = signal(32);
export const base = signal(10000);
export const spot = signal(8);
export const each = signal("");
export const hops = signal(1);
export const loops = signal("");
/** The step of the training whose checkpoint is looked at; -1: the model of the run. */
export const checkpoint = signal(-1);
/** Of a comparison, whether each side is the mean of its heads ("1") or one of them ("0"); "": as it fits. */
export const averaged = signal("");
CHOICES.mh = ["0", "1"];
Object.assign(DEFAULTS, {
  ck: -1,
  mh: "",
  ex: -1,
  pa: "sinusoidal",
  pb: "alibi",
  n: 64,
  d: 32,
  ba: 10000,
  at: 8,
  ea: "",
  hp: 1,
  sl: "",
});
Object.assign(PARTS, {
  ex: example,
  pa: first,
  pb: second,
  n: count,
  d: width,
  ba: base,
  at: spot,
  ea: each,
  hp: hops,
  sl: loops,
  ck: checkpoint,
  mh: averaged,
});
for (const name of ["ex", "n", "d", "ba", "at", "hp", "ck"]) NUMBERS.add(name);

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

/** The next scale. */
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

/** Locks a cell. @param {{ q: number, k: number }} at */
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
 * @param {Group[]} groups
 * @param {string} name
 */
export const groupOf = (groups, name) =>
  groups.find((one) => one.name === name) ||
  groups.find((one) => one.kind === "cross") ||
  groups.find((one) => one.kind !== "self") ||
  groups.find((one) => one.name.startsWith("decoder")) ||
  groups[0];

/** The group that is chosen. @returns {Group | null} */
export const chosen = () => groupOf(trace.value ? trace.value.groups : [], group.value) || null;

/**
 * The place of a layer within its group; -1 is where the group opens: as it says, else at the last layer that reads
 * another sequence or an image, else at the first.
 * @param {Group} group
 * @param {number} value
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
export function readAddress() {
  const [path, rest] = location.hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(rest || "");
  batch(() => {
    if (sample.value !== (given.get("sample") || "")) upload.value = "";
    page.value = path;
    for (const [name, part] of Object.entries(PARTS)) {
      const fallback = /** @type {any} */ (DEFAULTS)[name];
      const value = given.get(name);
      const number = Number(value);
      if (value === null) /** @type {any} */ (part).value = fallback;
      else if (NUMBERS.has(name))
        part.value = Number.isInteger(number) && number >= (UNSET.has(name) ? -2 : -1) ? number : fallback;
      else if (name in CHOICES) part.value = CHOICES[name].includes(value) ? value : fallback;
      else if (name === "te")
        part.value = Number(value) >= 0.01 && Number(value) <= 100 ? String(Number(value)) : fallback;
      else if (name === "um") part.value = value.split(",").every((one) => MASKS.includes(one)) ? value : fallback;
      else part.value = value;
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
  for (const [name, part] of Object.entries(PARTS)) {
    if (without.includes(name)) continue;
    const value = given[name] ?? part.value;
    if (value !== DEFAULTS[name]) values.set(name, String(value));
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

/** What the service says of the chosen run. @returns {any} */
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

/** Whether a chat template writes what the chosen run reads. @returns {boolean} */
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

/** An input that was typed. @param {string} typed */
export const type = (typed) =>
  give(readsFiles() && /^\d+$/.test(typed.trim()) ? { example: Number(typed) } : { text: typed });

/** What another input does not keep. */
export const OF_INPUT = ["q", "k", "f", "t", "nd"];

/** Another input, of one kind. @param {{ text?: string, example?: number, upload?: string, sample?: string }} given */
export function give(given) {
  batch(() => {
    for (const name of OF_INPUT) PARTS[name].value = DEFAULTS[name];
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
