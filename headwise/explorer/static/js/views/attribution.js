// @ts-check
/** What counts by a method of attribution, in place of weights: its map, and under it what it is and does not say. */

import { after } from "./marked.js";
import { significant } from "../core/digits.js";
import { apart, cut, percent } from "../core/text.js";
import { fill, h, strong } from "../dom.js";
import { inside } from "../inside.js";
import { effect, signal } from "../store.js";
import * as state from "../state.js";
import { knows, learn, phrase, t } from "../strings.js";
import { groupTitle, headTitle, layerTitle } from "../titles.js";
import { WORDS } from "../words/attribution.js";
import * as heat from "./heat.js";
import { spelled } from "./spelled.js";
import { facts } from "./method_facts.js";
import { described as asked, numbersOf } from "./methods.js";
import * as saving from "./saving.js";
import { shares } from "./shares.js";

learn(WORDS);

/** @typedef {import("./methods.js").Map} Map */
/** @typedef {import("./methods.js").Described} Described */

/** Letters of a token in a sentence. */
const LETTERS = 16;

/** The map that is looked at among those of other inputs, by its name; none: the one like the group. */
const other = signal("");
/** Whether all heads are looked at together, where there are several. */
const together = signal(true);

/**
 * @param {HTMLElement} node @param {HTMLElement} read where the chosen cell is read
 * @param {state.Trace} trace @param {state.Group} group
 */
export function mount(node, read, trace, group) {
  const by = state.by.value;
  if (state.edits.value) return edited(node, read, group);
  const leaving = new AbortController();
  other.value = "";
  const body = h("div", {}, h("p", { role: "status" }, t("by_working", t(`by_${by}`))));
  node.append(body);
  // what is read of the map has its place before it comes
  read.hidden = false;
  read.classList.add("to-come");
  let end = () => {};
  asked(trace, by, leaving.signal).then(
    (described) => {
      if (leaving.signal.aborted) return;
      end = effect(() => {
        const map = chosen(described, group);
        const head = map.heads > 1 && !together.value ? state.place(group).head : -1;
        let [ends, current] = [() => {}, true];
        numbersOf(trace, by, map, head).then((found) => {
          if (!current) return;
          read.classList.remove("to-come");
          node.style.minHeight = "";
          ends = draw(body, read, described, map, head, group, /** @type {any} */ (found.data));
        }, failed);
        return () => {
          current = false;
          ends();
        };
      });
    },
    (error) => leaving.signal.aborted || failed(error),
  );
  /** @param {Error} error */
  function failed(error) {
    read.hidden = true;
    node.style.minHeight = "";
    fill(body, h("p", { class: "note" }, error.message));
    document.documentElement.dataset.ready = `${group.name}/${by}/refused`;
  }
  return () => {
    leaving.abort();
    read.classList.remove("to-come");
    end();
  };
}

/**
 * What stands there for a model that is edited: nothing is asked for.
 * @param {HTMLElement} node @param {HTMLElement} read @param {state.Group} group
 */
function edited(node, read, group) {
  read.hidden = true;
  node.style.minHeight = "";
  const back = h("button", { class: "main", onclick: () => (state.edits.value = "") }, t("clear"));
  node.append(h("p", { class: "state" }, t("by_edited")), back);
  document.documentElement.dataset.ready = `${group.name}/${state.by.value}/refused`;
  return () => {};
}

/**
 * The map of the layer that is looked at; else the one that was chosen, or of the same tokens, or the first.
 * @param {Described} described @param {state.Group} group
 */
function chosen({ maps }, group) {
  const alike = (/** @type {Map} */ map) =>
    map.kind === group.kind && map.keys.length === group.keys.length && map.queries.length === group.queries.length;
  return (
    maps.find(({ name }) => name === other.value) ||
    maps.find(({ name }) => name === state.place(group).layer) ||
    maps.find(({ name }) => name.includes(group.name)) ||
    maps.find(alike) ||
    maps.find(({ kind }) => kind === group.kind) ||
    maps[0]
  );
}

/**
 * @param {HTMLElement} body @param {HTMLElement} read @param {Described} described @param {Map} map
 * @param {number} head -1: all together
 * @param {state.Group} group @param {ArrayLike<number>} values
 */
function draw(body, read, described, map, head, group, values) {
  const [by, rows, columns] = [described.by, map.queries.length, map.keys.length];
  const { at, layer } = state.place(group);
  const ofLayer = map.name === layer && !map.name.startsWith(by);
  const whose = head < 0 ? layerTitle(layer, at, group.kind) : headTitle(group, at, head);
  const title = ofLayer
    ? t("by_map", t(`by_${by}`), whose)
    : [t(`by_${by}`), ...(described.maps.length > 1 ? [part(described, map)] : [])].join(" ");
  const weights = Float32Array.from(values);
  const shown = {
    weights: map.signed ? weights : after(weights, rows, columns, map.causal),
    group: { ...group, ...map, ...numbered(map), layers: [map.name] },
    title,
    scores: map.signed,
    fitsScreen: true,
    quantity: t(`quantity_${by}`, map.quantity),
    sides: map.rows === "query" ? undefined : { from: `side_${map.rows}`, to: `side_${map.columns}` },
  };
  const choices = ofLayer ? ofHeads(map) : ofInputs(described, map);
  fill(body, h("h2", {}, title), choices.length ? h("div", { class: "seg" }, choices) : null);
  const place = h("div");
  body.append(place, facts(described));
  if (!inside()) body.append(saving.picture(title, async () => (await import("./pictures.js")).heat(shown)));
  state.strongest.value = divided(shown, spelled(/** @type {any} */ (state.trace.peek()), group));
  const ends = [heat.mount(place, shown), said(read, shown, by)];
  document.documentElement.dataset.ready = `${group.name}/${by}/heat`;
  return () => ends.forEach((one) => one());
}

/** Which of the maps of a method one is, in words. @param {Described} described @param {Map} map */
function part({ by }, { name }) {
  const rest = name.startsWith(by) ? name.slice(by.length).trim() : name;
  const heads = rest.match(/^of (\S+) (\S+), \d+ heads$/);
  return heads ? t("by_of", groupTitle({ name: `${heads[1]} ${heads[2]}`, kind: heads[2] })) : t(rest);
}

/** Layers, blocks and heads are counted from 1. @param {Map} map */
function numbered({ rows, columns, queries, keys }) {
  const count = (/** @type {string[]} */ labels) => labels.map((_, at) => String(at + 1));
  return {
    queries: rows === "layer" || rows === "block" ? count(queries) : queries,
    keys: columns === "head" ? count(keys) : keys,
  };
}

/** @param {string} text @param {boolean} on @param {() => void} press */
const button = (text, on, press) =>
  h("button", { class: on ? "tab chosen" : "tab", "aria-pressed": String(on), onclick: press }, text);

/** @param {Map} map */
const ofHeads = (map) =>
  map.heads < 2
    ? []
    : [true, false].map((all) =>
        button(t(all ? "by_together" : "by_head"), together.value === all, () => (together.value = all)),
      );

/** @param {Described} described @param {Map} now */
const ofInputs = (described, now) =>
  described.maps.length < 2
    ? []
    : described.maps.map((map) => button(part(described, map), map === now, () => (other.value = map.name)));

/**
 * The largest cell of the row that is most divided; one of a word where there is any.
 * @param {{ weights: Float32Array, group: { queries: string[], keys: string[] } }} shown
 * @param {ReturnType<typeof spelled>} tokens
 */
function divided({ weights, group: { queries, keys } }, tokens) {
  const sizes = (/** @type {number} */ q) => Array.from(weights.subarray(q * keys.length, (q + 1) * keys.length), size);
  const special = (tokens.queries.special || []).filter((q) => queries.length > 1 && q < queries.length);
  let best = { merit: -1, q: 0, k: 0 };
  for (const q of queries.keys()) {
    const row = sizes(q);
    const [first, second = 0] = [...row].sort((one, two) => two - one);
    const merit = special.includes(q) || /^[\p{P}\p{S}]+$/u.test(word(queries, q)) ? -0.5 : first * second;
    if (merit > best.merit) best = { merit, q, k: row.indexOf(first) };
  }
  return { q: best.q, k: best.k };
}

/** How much a number counts; nothing where a pair is forbidden. @param {number} value */
const size = (value) => (value === -Infinity ? 0 : Math.abs(value));

/** The chosen cell in a sentence, and its row. @param {HTMLElement} read @param {heat.Head} shown @param {string} by */
function said(read, shown, by) {
  const { queries, keys } = shown.group;
  return effect(() => {
    const { q, k } = heat.chosen(shown);
    if (q < 0 || k < 0 || q >= queries.length || k >= keys.length) return fill(read);
    const row = Array.from(shown.weights.subarray(q * keys.length, (q + 1) * keys.length));
    const names = [word(queries, q), word(keys, k)].map((label) => strong(cut(label, LETTERS)));
    const numbers = shown.scores
      ? [by === "occlusion" ? -row[k] : row[k], Math.exp(row[k])].map((number) => significant(number, 3))
      : [percent(Math.max(0, row[k]), 1)];
    return fill(
      read,
      h("p", { class: "say" }, phrase(sentence(by, row[k]), ...names, ...numbers.map(strong))),
      h("h2", {}, phrase("row_of", h("bdi", {}, cut(word(queries, q), LETTERS)))),
      bars(shown, row, k),
      h("p", { class: "note" }, shown.quantity),
    );
  });
}

/**
 * A row as bars: shares of a whole, or numbers beside the largest of the row.
 * @param {heat.Head} shown @param {number[]} row @param {number} k
 */
function bars({ scores, group }, row, k) {
  const order = [...row.keys()]
    .filter((at) => row[at] > -Infinity)
    .sort((one, two) => size(row[two]) - size(row[one]) || one - two);
  const how = scores
    ? { full: size(row[order[0]]) || 1, told: (/** @type {number} */ value) => significant(value, 3) }
    : {};
  const words = group.keys.map((_, at) => word(group.keys, at));
  return shares(
    apart(words, (label) => cut(label, LETTERS)),
    row,
    order,
    k,
    how,
  );
}

/** The words for a number of a method. @param {string} by @param {number} value */
function sentence(by, value) {
  if (by === "gradient" && value < 0) return "say_by_gradient_less";
  return knows(`say_by_${by}`) ? `say_by_${by}` : "say_by";
}

/** A label without its number, where all have one. @param {string[]} labels @param {number} at */
const word = (labels, at) =>
  labels.every((label, place) => label.startsWith(`${place + 1}:`)) ? labels[at].replace(/^\d+:/, "") : labels[at];
