// @ts-check
/** Edits of the chosen head, layer or token: what can be done, what is done, and what it changes in the answer. */

import { getNumbers, query } from "../api.js";
import { fill, follow, h, strong } from "../dom.js";
import { effect } from "../store.js";
import { MOST, read, written } from "../core/edits.js";
import { number, percent, shown, together } from "../core/text.js";
import * as state from "../state.js";
import { learn, phrase, t } from "../strings.js";
import { headName, layerTitle } from "../titles.js";
import { WORDS } from "../words/edit.js";
import { tableOf } from "./table.js";

learn(WORDS);

const SWAPS = [
  "normalizer~sparsemax",
  "normalizer~entmax15",
  "normalizer~relu",
  "normalizer~hard",
  "normalizer~top_k:2",
  "score~dot",
  "score~distance",
  "mechanism~linear",
];
const MASKS = ["causal~1", "window~0", "window~1", "window~2", "window~4"];

/** The masks that mean something for the chosen group: its tokens have an order, and it looks ahead of them. */
function masks() {
  const group = state.chosen();
  const ordered = group && state.oneSequence(group) && !["node", "graph"].includes(state.reads());
  return ordered ? MASKS.filter((mask) => !(group.causal && mask === "causal~1")) : [];
}

/** @param {string} swap */
export const swapName = (swap) => t(`swap_${swap.split("~")[0]}`, swap.split("~")[1]);

/** @param {string} mask @param {string | number} width */
const maskName = (mask, width) => t(`mask_of_${mask}`, width);

/** @param {HTMLElement} place */
export function mount(place) {
  const list = h("ol", { class: "edits" });
  const told = h("div", { class: "change", role: "region", "aria-label": () => t("change") });
  place.append(
    h("h2", {}, () => t("edit")),
    controls(),
    list,
    told,
  );
  const ends = [effect(() => fill(list, listed())), effect(() => changed(told))];
  return () => ends.forEach((end) => end());
}

/** One more edit behind those there are. @param {import("../core/edits.js").Edit} edit */
function add(edit) {
  const edits = read(state.edits.peek());
  // the largest weight of what is edited may be elsewhere
  state.lock(state.cell());
  if (edits.some((one) => written([one]) === written([edit]))) return;
  if (edits.length >= MOST) state.status.value = t("toomany");
  else state.edits.value = written([...edits, edit]);
}

/** What is hidden: of a graph a node, of a recording a moment, of a series a step. */
const hides = () => `hide${{ node: "node", graph: "node", sound: "moment", series: "step" }[state.reads()] || "token"}`;

/** What can be done to what is chosen. */
function controls() {
  const weight = h("input", {
    type: "number",
    min: 0,
    max: 1,
    step: 0.05,
    value: "1",
    "aria-label": () => t("weight"),
  });
  const shares = h("input", { type: "checkbox", checked: true });
  const here = (/** @type {(group: state.Group, at: { layer: string, head: number }) => void} */ work) => () => {
    const group = state.chosen();
    if (group) work(group, state.place(group));
  };
  const hidden = here((group) => {
    const token = keyOf(group);
    if (token < 0) state.status.value = t("tokenfirst");
    else add({ kind: "hide", group: group.name, tokens: [token] });
  });
  const set = here((_, { layer, head }) => {
    const { q, k } = state.cell();
    if (q < 0 || k < 0) state.status.value = t("lockfirst");
    else add(forced(layer, head, weight, shares));
  });
  return h(
    "div",
    { class: "controls" },
    h("button", { onclick: here((_, { layer, head }) => add({ kind: "mute", layer, heads: [head] })) }, () =>
      t("mute"),
    ),
    h("button", { onclick: hidden }, () => t(hides())),
    h(
      "span",
      { class: "set" },
      h("button", { onclick: set }, () => t("force")),
      weight,
      h("label", {}, shares, () => t("renormalized")),
    ),
    menu(
      "swaplayer",
      () => SWAPS,
      swapName,
      here,
      (layer, one) => {
        const [what, name] = one.split("~");
        return { kind: "swap", layer, [what]: name };
      },
    ),
    menu(
      "narrow",
      masks,
      (one) => maskName(one.split("~")[0], one.split("~")[1]),
      here,
      (layer, one) => {
        const [mask, width] = one.split("~");
        return { kind: "narrow", layer, mask, width: Number(width) };
      },
    ),
    button("undo", () => written(read(state.edits.peek()).slice(0, -1))),
    button("clear", () => ""),
  );
}

/** Takes edits back, where there are some. @param {string} name @param {() => string} left */
const button = (name, left) =>
  h("button", { disabled: () => !state.edits.value, onclick: () => (state.edits.value = left()) }, () => t(name));

/**
 * The key that is chosen: that of a cell, or the token itself where queries and keys are the same tokens; else -1.
 * @param {state.Group} group
 */
function keyOf(group) {
  const { q, k } = state.cell();
  return k < 0 && state.oneSequence(group) ? q : k;
}

/** @param {string} layer @param {number} head @param {HTMLInputElement} weight @param {HTMLInputElement} shares */
function forced(layer, head, weight, shares) {
  const value = Math.max(0, Math.min(1, Number(weight.value) || 0));
  return {
    kind: "force",
    layer,
    head,
    query: state.cell().q,
    key: state.cell().k,
    weight: value,
    renormalized: shares.checked,
  };
}

/**
 * A list of which one is chosen for the layer.
 * @param {string} name
 * @param {() => string[]} items those that are of use; without any there is no list
 * @param {(one: string) => string} words @param {any} here @param {(layer: string, one: string) => any} made
 */
function menu(name, items, words, here, made) {
  const list = h("select", { "aria-label": () => t(name) });
  follow(list, () => {
    const now = list.value;
    fill(
      list,
      items().map((one) => h("option", { value: one }, words(one))),
    );
    if (items().includes(now)) list.value = now;
  });
  const act = here((/** @type {any} */ _, /** @type {{ layer: string }} */ at) => add(made(at.layer, list.value)));
  return h(
    "span",
    { class: "set", hidden: () => !items().length },
    h("button", { onclick: act }, () => t(name)),
    list,
  );
}

/** What is done, each with a button that takes it back. */
function listed() {
  const edits = read(state.edits.value);
  return edits.map((one, at) =>
    h(
      "li",
      {},
      `${sentence(one)} `,
      h(
        "button",
        {
          "aria-label": `${t("remove")}: ${sentence(one)}`,
          onclick: () => (state.edits.value = written(edits.filter((_, other) => other !== at))),
        },
        "✕",
      ),
    ),
  );
}

/** @param {any} one */
export function sentence(one) {
  const trace = state.trace.value;
  const group = trace && trace.groups.find((each) => each.name === one.group || each.layers.includes(one.layer));
  const token = (/** @type {number} */ at, /** @type {string[] | undefined} */ names) =>
    names && at < names.length ? `${at + 1} “${shown(names[at])}”` : String(at + 1);
  const key = (/** @type {number} */ at) => token(at, group ? group.keys : undefined);
  const layer = group && one.layer ? layerTitle(one.layer, group.layers.indexOf(one.layer), group.kind) : one.layer;
  if (one.kind === "mute") return `${t("mute")}: ${layer}, ${one.heads.map(headName).join(", ")}`;
  if (one.kind === "hide") return `${t(hides())}: ${one.tokens.map((/** @type {number} */ at) => key(at)).join(", ")}`;
  if (one.kind === "swap") return `${t("swaplayer")}: ${layer} → ${one.mechanism || one.score || one.normalizer}`;
  if (one.kind === "narrow") return `${t("narrow")}: ${layer}, ${maskName(one.mask, one.width)}`;
  const pair = `${token(one.query, group ? group.queries : undefined)} → ${key(one.key)} = ${one.weight}`;
  return [
    `${t("force")}: ${layer}`,
    headName(one.head),
    pair,
    t(one.renormalized ? "renormalized" : "notrenormalized"),
  ].join(", ");
}

/** What the edits change. @param {HTMLElement} node */
function changed(node) {
  fill(node);
  const trace = state.trace.value;
  const change = trace && trace.change;
  if (!trace || !change) return undefined;
  const { answer, effect: sum, places } = change;
  const weights = h("p", { class: "raw" });
  const end = raw(weights, trace, change.unedited);
  // beside the answer too: the table is below the map
  const first = largestChange(places);
  if (first) document.querySelector(".answer-line")?.after(first);
  const chosen = places[0] && "chosen" in places[0];
  fill(
    node,
    h("h2", {}, t("change")),
    largestChange(places),
    answer
      ? h(
          "p",
          {},
          phrase(answer.before === answer.after ? "stays" : "becomes", strong(answer.before), strong(answer.after)),
        )
      : h("p", { class: "side" }, t("nonew")),
    h(
      "p",
      {},
      Object.entries(sum)
        .map(([name, value]) => `${t(name)} ${number(value).replace(/^-/, "−")}`)
        .join(" · "),
    ),
    chosen && h("p", { class: "note" }, t("moved")),
    weights,
    h("div", { class: "scrolls", tabindex: 0 }, chosen ? choices(places) : numbers(places)),
  );
  document.documentElement.dataset.changed = trace.trace_id;
  return () => {
    end();
    first?.remove();
  };
}

/** The token whose probability changes most, in a sentence. @param {any[]} places */
function largestChange(places) {
  if (!places[0] || !("chosen" in places[0])) return null;
  const moved = (/** @type {any} */ one) => Math.abs(Math.exp(one.after) - Math.exp(one.before));
  const most = places.reduce((best, one) => (moved(one) > moved(best) ? one : best));
  const shares = [most.before, most.after].map((log) => strong(percent(Math.exp(log), 1)));
  return h("p", { class: "say" }, phrase("change_most", strong(shown(most.chosen)), ...shares));
}

/**
 * The weight of the locked cell before and after.
 * @param {HTMLElement} node @param {state.Trace} trace @param {string} unedited
 */
function raw(node, trace, unedited) {
  return effect(() => {
    const group = state.chosen();
    const { q, k } = state.cell();
    node.textContent = "";
    if (!group || q < 0 || k < 0) return undefined;
    let alive = true;
    const { layer, head } = state.place(group);
    const asked = [unedited, trace.trace_id].map((id) =>
      getNumbers(`/api/v1/traces/${id}/matrix?${query({ layer, head })}`),
    );
    Promise.all(asked).then((found) => {
      if (!alive) return;
      const [before, after] = found.map((one) => percent(one.data[q * group.keys.length + k], 1));
      const pair = `${shown(group.queries[q])} → ${shown(group.keys[k])}`;
      node.textContent = together(t("weight_now", pair, before, after));
    }, state.failed);
    return () => {
      alive = false;
    };
  });
}

/** @param {any[]} places */
function choices(places) {
  // what is chosen may name the place
  const named = places.some(({ place, chosen }) => place !== chosen);
  const heads = ["place", ...(named ? ["chosen"] : []), "before", "after", "divergence", "likeliest"];
  const share = (/** @type {number} */ log) => percent(Math.exp(log), 1);
  const best = (/** @type {[string, number][]} */ few) =>
    few.map(([name, value]) => together(`${shown(name)} ${percent(value, 1)}`)).join(", ");
  return tableOf(
    { class: "places" },
    heads.map((name) => t(name)),
    places.map((one) => [
      shown(one.place),
      ...(named ? [shown(one.chosen)] : []),
      share(one.before),
      share(one.after),
      number(one.divergence),
      best(one.likeliest_after),
    ]),
  );
}

/** @param {any[]} places */
const numbers = (places) =>
  tableOf(
    { class: "places" },
    ["before", "after"].map((name) => t(name)),
    places.map((one) => [number(one.before), number(one.after)]),
  );
