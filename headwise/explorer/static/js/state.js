// @ts-check
/** What is shown: one selection that all views share, and its place in the address. */

import { batch, effect, signal } from "./store.js";

/** @typedef {{ name: string, kind: string, layers: string[], heads: number, queries: string[], keys: string[], causal: boolean }} Group */
/** @typedef {{ trace_id: string, model: string, source: string, output: string, groups: Group[], warnings: string[], change: any }} Trace */

export const DEFAULTS = { page: "", m: "", x: "", g: "", l: 0, h: 0, q: -1, k: -1, sc: "sqrt", v: "heat", s: -1, p: 0, lang: "", e: "" };
const NUMBERS = new Set(["l", "h", "q", "k", "s", "p"]);
// the second side of a comparison
Object.assign(DEFAULTS, { m2: "", x2: "", g2: "", l2: 0, h2: 1, e2: "" });
["l2", "h2"].forEach((name) => NUMBERS.add(name));
const SCALE_NAMES = ["linear", "sqrt", "log"];
export const VIEWS = ["heat", "links", "text", "table", "needs"];

export const page = signal("");
export const model = signal("");
export const text = signal("");
export const group = signal("");
export const layer = signal(0);
export const head = signal(0);
/** The cell that is locked: a query and a key, -1 for none. */
export const query = signal(-1);
export const key = signal(-1);
export const scale = signal("sqrt");
export const view = signal("heat");
/** The frame of the film that is shown, -1 for its last, and the probe. */
export const frame = signal(-1);
export const probe = signal(0);
export const language = signal("");
/** Edits of the attention, as `core/edits.js` writes them. */
export const edits = signal("");
/** What is compared with the selection above. */
export const other = { model: signal(""), text: signal(""), group: signal(""), layer: signal(0), head: signal(1), edits: signal("") };
/** Whether the colours are those of the dark. */
export const dark = signal(false);

/** The cell under the pointer. */
export const hovered = signal(/** @type {{ q: number, k: number } | null} */ (null));
export const trace = signal(/** @type {Trace | null} */ (null));
export const meta = signal(/** @type {any} */ (null));
export const status = signal("");


const PARTS = { m: model, x: text, g: group, l: layer, h: head, q: query, k: key, sc: scale, v: view, s: frame, p: probe, lang: language, e: edits };
/** The page that writes: hypotheses and tokens (0: as the recipe says), forced tokens, step, beam, layer and head (-1: all). */
export const beams = signal(0);
export const most = signal(0);
export const forced = signal("");
export const step = signal(-1);
export const node = signal(-1);
export const ofLayer = signal(-1);
export const ofHead = signal(-1);
Object.assign(PARTS, { b: beams, max: most, f: forced, t: step, nd: node, tl: ofLayer, th: ofHead });
Object.assign(DEFAULTS, { b: 0, max: 0, f: "", t: -1, nd: -1, tl: -1, th: -1 });
["b", "max", "t", "nd", "tl", "th"].forEach((name) => NUMBERS.add(name));
/** What changes too often to be worth a way back. */
const PASSING = ["t"];
Object.assign(PARTS, { m2: other.model, x2: other.text, g2: other.group, l2: other.layer, h2: other.head, e2: other.edits });

/** The query that is looked at: under the pointer, else the locked one. */
export const lookedAt = () => (hovered.value ? hovered.value.q : query.value);

/** The group that is chosen, the first where there is no such one. @returns {Group | null} */
export function chosen() {
  const groups = trace.value ? trace.value.groups : [];
  return groups.find((one) => one.name === group.value) || groups[0] || null;
}

/** The layer and the head that are chosen, within those of a group. @param {Group} group */
export function place(group) {
  const within = (/** @type {number} */ value, /** @type {number} */ count) => Math.min(Math.max(0, value), count - 1);
  const at = within(layer.value, group.layers.length);
  return { at, layer: group.layers[at], head: within(head.value, group.heads) };
}

/** Takes the selection from the address; what is out of range becomes the default. */
export function readAddress() {
  const [path, rest] = location.hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(rest || "");
  batch(() => {
    page.value = path;
    for (const [name, part] of Object.entries(PARTS)) {
      const fallback = /** @type {any} */ (DEFAULTS)[name];
      const value = given.get(name);
      const number = Number(value);
      if (value === null) /** @type {any} */ (part).value = fallback;
      else if (NUMBERS.has(name)) part.value = Number.isInteger(number) && number >= -1 ? number : fallback;
      else if (name === "sc") part.value = SCALE_NAMES.includes(value) ? value : fallback;
      else if (name === "v") part.value = VIEWS.includes(value) ? value : fallback;
      else part.value = value.slice(0, 2000);
    }
  });
}

/**
 * The address of what is shown, with a page of another name if one is given.
 * @param {string} [other] @param {string[]} [without] parts that are left out
 */
export function address(other, without = []) {
  const values = new URLSearchParams();
  for (const [name, part] of Object.entries(PARTS)) {
    if (without.includes(name)) continue;
    if (part.value !== /** @type {any} */ (DEFAULTS)[name]) values.set(name, String(part.value));
  }
  const rest = values.toString();
  return `#/${other === undefined ? page.value : other}${rest ? `?${rest}` : ""}`;
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
    if (before === lasting) history.replaceState(null, "", next);
    else history.pushState(null, "", next);
  });
}
