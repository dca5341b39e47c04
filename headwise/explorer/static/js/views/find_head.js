// @ts-check
/** Heads by what they look at in this input: for each kind the head that does so most, from the summary of all. */

import { getJson, query } from "../api.js";
import { written, read } from "../core/edits.js";
import { evenShare } from "../core/even.js";
import { percent } from "../core/text.js";
import { fill, h } from "../dom.js";
import { inside } from "../inside.js";
import { batch, signal } from "../store.js";
import * as state from "../state.js";
import { learn, sentences, t } from "../strings.js";
import { headName, layerNumber } from "../titles.js";
import { spelled } from "./spelled.js";
import { unmute } from "./muted_heads.js";
import { foldedBy, seen, silenced } from "./seen.js";
import { toolbar } from "./toolbar.js";
import { WORDS } from "../words/heads.js";

learn(WORDS);

/** Kinds of heads by a statistic of the summary; the last ones by the fewest and the most keys. */
const SHARES = ["previous", "next", "diagonal", "first", "separator", "same", "induction"];
/** Those that look at a single key of a row, of which a head that looks nowhere gives one over their number. */
const SINGLE = new Set(["previous", "next", "diagonal", "first"]);
/** A share that is at least so many times that of a head that looks everywhere alike is a find. */
const NOTABLE = 1.5;
/** Pixels of a screen on which all stands in one column. */
const NARROW = 760;
const SPREADS = /** @type {[string, number][]} */ ([
  ["sharpest", -1],
  ["evenest", 1],
]);

/** @typedef {{ layer: number, head: number, value: number }} Match */

/**
 * The head of the largest value, or of the smallest.
 * @param {Record<string, number>[][]} heads @param {string} name @param {number} sign @returns {Match}
 */
export const best = (heads, name, sign = 1) =>
  heads
    .flatMap((row, layer) => row.map((found, head) => ({ layer, head, value: found[name], largest: found.largest })))
    // a muted head does nothing
    .filter(({ largest }, _, all) => largest !== 0 || all.every((one) => one.largest === 0))
    .reduce((most, one) => (sign * one.value > sign * most.value ? one : most));

/**
 * The best head of each kind: none that an even one nearly reaches, none of head and number of another.
 * @param {Record<string, number>[][]} heads @param {string[]} kinds @param {(name: string) => number} even
 */
function notable(heads, kinds, even) {
  const seen = new Set();
  return kinds
    .map((name) => /** @type {[string, Match]} */ ([name, best(heads, name)]))
    .filter(([name, { layer, head, value }]) => {
      const alike = `${layer}/${head}/${value.toFixed(6)}`;
      if (seen.has(alike) || !(value > 0) || (SINGLE.has(name) && value < NOTABLE * even(name))) return false;
      return Boolean(seen.add(alike));
    });
}

/** @param {HTMLElement} place @param {state.Trace} trace @param {state.Group} group */
export function mount(place, trace, group) {
  let alive = true;
  const steps = spelled(trace, group).keys.kind === "steps";
  const tokens = steps || [undefined, "tokens"].includes(spelled(trace, group).keys.kind);
  const meant = h("span", {}, t("find_limit"));
  const list = toolbar(() => t("find"), "finder");
  fill(
    place,
    h("h2", {}, t("find"), state.method() ? h("span", { class: "side" }, " ", t("by_weights")) : null),
    list,
    h("p", { class: "note" }, meant, " ", inside() ? null : muting(group)),
  );
  const doubt = h("p", { class: "note" });
  // what was not trained here may not be trained at all
  if (state.chosenRun()?.trained === false && !inside())
    import("./near_even.js").then(async (near) => {
      doubt.textContent = await near.doubt(trace);
      if (!alive || !doubt.textContent) return;
      // where the list is screens below, the answer is doubted beside it
      if (innerWidth < NARROW) document.querySelector(".answer-line")?.after(doubt);
      else list.before(doubt);
    });
  const path = query({ group: group.name, ...foldedBy(trace, group) });
  // the map comes first
  const summary = seen(trace, group).then(() => alive && getJson(`/api/v1/traces/${trace.trace_id}/summary?${path}`));
  summary.then(
    (found) => {
      if (!found || !alive) return;
      const { heads } = found;
      const even = (/** @type {string} */ name) => evenShare(group.keys.length, group.causal, name);
      // what the mask forbids is done by no head
      const open = SHARES.filter((name) => name in heads[0][0] && !(group.causal && name === "next"));
      // a step has no words
      const shares = !tokens ? [] : steps ? open.filter((name) => SINGLE.has(name)) : open;
      // a head of several kinds is framed once: where it was chosen, else at the first of them
      const kinds = framing(group);
      const buttons = [
        ...notable(heads, shares, even).map(([name, match]) => {
          const kind = [
            t(`finds_${name}${steps ? "_step" : ""}`),
            SINGLE.has(name) ? h("span", { class: "side" }, t("evenly", percent(even(name), 1))) : null,
          ];
          return button(kinds(name, match), kind, match, (value) => percent(value, 1));
        }),
        ...SPREADS.map(([name, sign]) => {
          const match = best(heads, "effective", sign);
          return button(kinds(name, match), t(name), match, (value) => t("keys_a_row", value.toFixed(1)));
        }),
      ];
      fill(list, buttons);
      if (list.querySelector(".kind-of-head .side")) meant.textContent = sentences(t("find_limit"), t("evenly_note"));
      list.querySelectorAll("button").forEach((one, at) => (one.tabIndex = at ? -1 : 0));
    },
    (error) => alive && fill(list, h("p", { class: "failed" }, error.message)),
  );
  return () => {
    alive = false;
    doubt.remove();
  };
}

/** @typedef {{ group: state.Group, here: () => boolean, pick: () => void }} Framed */

/**
 * Which kind of the chosen head is framed. @param {state.Group} group @returns {(name: string, match: Match) => Framed}
 */
function framing(group) {
  const picked = signal("");
  /** Kinds of each head, in their order. @type {Map<string, string[]>} */
  const kinds = new Map();
  return (name, { layer, head }) => {
    const own = kinds.get(`${layer}/${head}`) || [];
    kinds.set(`${layer}/${head}`, own);
    own.push(name);
    const here = () => {
      const { at, head: now } = state.place(group);
      const framed = own.includes(picked.value) ? picked.value : own[0];
      return at === layer && now === head && state.head.value >= 0 && framed === name;
    };
    return { group, here, pick: () => (picked.value = name) };
  };
}

/** @param {Framed} framed @param {any} kind @param {Match} match @param {(value: number) => string} write */
function button({ group, here, pick }, kind, { layer, head, value }, write) {
  const go = () =>
    batch(() => {
      pick();
      state.layer.value = layer;
      state.head.value = head;
      state.query.value = -1;
      state.key.value = -1;
      if (!["heat", "links", "text"].includes(state.view.value)) state.view.value = "heat";
    });
  const where = t("layer_head", t("layer_n", layerNumber(group.layers[layer], layer)), headName(head));
  return h(
    "button",
    { class: () => (here() ? "chosen" : ""), "aria-pressed": () => String(here()), onclick: go },
    h("span", { class: "kind-of-head" }, kind),
    h("span", {}, where),
    h("span", { class: "value" }, write(value)),
  );
}

/** Mutes the chosen head, and shows what that changes. @param {state.Group} group */
function muting(group) {
  const mute = () => {
    const { layer, head } = state.place(group);
    const edits = read(state.edits.peek());
    // the largest weight of a muted head is anywhere
    state.lock(state.cell());
    if (silenced(layer, head)) return unmute(layer, head);
    state.edits.value = written([...edits, { kind: "mute", layer, heads: [head] }]);
    return document.querySelector(".panel.whole")?.scrollIntoView({ block: "nearest" });
  };
  return h("button", { class: "small link", onclick: mute }, () => {
    const { at, layer, head } = state.place(group);
    return t(silenced(layer, head) ? "unmute" : "mute_see", layerNumber(group.layers[at], at), head + 1);
  });
}
