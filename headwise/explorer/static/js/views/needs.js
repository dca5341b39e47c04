// @ts-check
/** How alike the heads of a group are, and what changes in the answer when each is muted alone. */

import { getNumbers, post, postLines } from "../api.js";
import { fill, h, strong } from "../dom.js";
import { batch, effect, signal } from "../store.js";
import { closed } from "../core/phrases.js";
import { minus } from "../core/digits.js";
import { LARGEST, NUMERALS } from "../core/fit.js";
import { decimals, number } from "../core/text.js";
import { read } from "../core/edits.js";
import * as state from "../state.js";
import { learn, phrase, sentences, t } from "../strings.js";
import { brief, groupTitle, layerNumber, layerTitle } from "../titles.js";
import * as map from "./map.js";
import { mutedHeads } from "./muted_heads.js";
import { silenced } from "./seen.js";
import { tableOf } from "./table.js";
import { WORDS } from "../words/needs.js";

learn(WORDS);

// as many as the service compares
const MOST_INPUTS = 64;
const NARROW = 700;
/** Pixels of the titles, the legend and the words of a map of heads. */
const MEANT = 210;

/** What muting each head came to, over which inputs, and whether that is all; it stays while another group is open. */
const muting = signal({ about: "", texts: "", rows: /** @type {any[]} */ ([]), done: false });

/** @param {HTMLElement} place @param {state.Trace} trace @param {state.Group} group @param {() => boolean} alive */
export function mount(place, trace, group, alive) {
  const similar = h("div", {});
  const muted = h("div", {});
  const texts = h("textarea", { rows: 3, "aria-label": () => t("inputs") });
  const about = trace.trace_id;
  if (muting.peek().about !== about) muting.value = { about, texts: trace.source, rows: [], done: false };
  texts.value = muting.peek().texts;
  const given = () => texts.value.split("\n").filter((/** @type {string} */ line) => line.trim());
  const over = h("span", { class: "over-inputs" });
  let [turn, inputs] = [0, [trace.source]];
  let drawn = () => {};
  const compare = async () => {
    if (given().length > MOST_INPUTS) {
      state.status.value = t("toomanyinputs");
      return;
    }
    state.status.value = "";
    inputs = given();
    await again();
  };
  /** The same inputs, as where another layer is compared. */
  const again = async () => {
    turn += 1;
    const mine = turn;
    const wanted = () => alive() && mine === turn;
    try {
      await compared(await tracesOf(trace, inputs, wanted), wanted);
    } catch (error) {
      if (wanted()) failed(/** @type {Error} */ (error));
    }
  };
  /** Why heads cannot be compared, where they would be. @param {Error} error */
  const failed = (error) => {
    drawn();
    drawn = () => {};
    fill(said);
    fill(similar, h("p", { class: "failed", role: "alert" }, error.message));
    document.documentElement.dataset.ready = `${group.name}/needs/failed`;
  };
  // other inputs are typed, which those of a file are not
  const typed = !state.readsFiles();
  const said = h("p", { class: "say" });
  const own = typed
    ? [
        h("h2", {}, t("muted")),
        h("p", { class: "side" }, t("mutednote")),
        muted,
        h("h2", {}, t("inputs")),
        texts,
        h("div", { class: "controls" }, h("button", { onclick: compare }, t("compareinputs"))),
      ]
    : h("p", { class: "side" }, t("onlytyped"));
  const alike = h("div", {}, h("h2", {}, t("similar")), mutedHeads(group), said, similar);
  alike.append(h("p", { class: "side" }, t("similarnote"), " ", over));
  place.append(h("div", { class: "similarity" }, alike, h("div", {}, own)));
  const ends = typed ? [one_by_one(muted, trace, given)] : [];
  /** @param {string[]} ids @param {() => boolean} wanted */
  const compared = async ([first, ...beside], wanted) => {
    if (!wanted()) return;
    const layers = comparedLayers(group);
    const only = layers.length < group.layers.length;
    const asked = [
      ["group", group.name],
      ...(only ? [["layer", layers[0]]] : []),
      ...beside.map((id) => ["beside", id]),
    ];
    const found = await getNumbers(`/api/v1/traces/${first}/similar?${new URLSearchParams(asked)}`);
    if (!wanted()) return;
    drawn();
    fill(similar);
    const places = layers.flatMap((path) =>
      Array.from({ length: group.heads }, (_, head) => ({ layer: group.layers.indexOf(path), head })),
    );
    const heads = places.map(({ layer, head }) => [layerNumber(group.layers[layer], layer), head + 1]);
    const [names, whole] = ["layer_head_short", "layer_head_n"].map((form) => heads.map((head) => t(form, ...head)));
    // rows of zeros are alike to nothing
    const mute = places.map(({ layer, head }) => silenced(group.layers[layer], head));
    const values = Float32Array.from(found.data, (value, at) =>
      mute[Math.floor(at / names.length)] || mute[at % names.length] ? -Infinity : value,
    );
    const told = (/** @type {number} */ q, /** @type {number} */ k) =>
      `${whole[q]} ~ ${whole[k]}: ${
        mute[q] || mute[k] ? t("similar_muted") : q === k ? t("same_head") : number(values[q * names.length + k])
      }`;
    const pick = (/** @type {number} */ q) => choose(places[q].layer, places[q].head);
    fill(said, ...mostAlike(values, whole));
    drawn = map.mount(similar, {
      values,
      absent: t("similar_muted"),
      rows: names,
      columns: names,
      ...spread(values, names.length),
      title: t("similar"),
      cell: signal(null),
      told,
      pick,
      quantity: t("similar_bar"),
      // on a narrow screen the cells need the room of the second title
      sides: { from: innerWidth > NARROW ? "similar_head" : "", to: "similar_head" },
      most: () => largest(similar, names.length),
    });
    const alone = only ? t("layer_alone", layerTitle(layers[0], group.layers.indexOf(layers[0]))) : "";
    over.textContent = sentences(t("overinputs", 1 + beside.length), alone);
    document.documentElement.dataset.ready = `${group.name}/needs${beside.length ? `/${1 + beside.length}` : ""}`;
  };
  let before = "";
  const follow = effect(() => {
    const now = comparedLayers(group).join();
    if (now !== before) again();
    before = now;
  });
  return () => {
    follow();
    drawn();
    ends.forEach((end) => end());
  };
}

/**
 * The layers whose heads are compared at once: that of the chosen head where all are too many.
 * @param {state.Group} group
 */
const comparedLayers = (group) => (group.compared === "layer" ? [state.place(group).layer] : group.layers);

/**
 * From where to where colours go: over pairs of two heads, of which a head with itself would be the end.
 * @param {ArrayLike<number>} values a row for each head @param {number} heads
 */
function spread(values, heads) {
  const pairs = Array.from(values).filter((value, at) => at % (heads + 1) && value > -Infinity);
  const [low, top] = [Math.min(...pairs), Math.max(...pairs)];
  return low < top ? { low, top } : { low: 0, top: 1 };
}

/**
 * Pixels of a cell, so that what the map means is seen below it; where that scrolls, as many as it is wide.
 * @param {HTMLElement} place @param {number} heads
 */
function largest(place, heads) {
  const left = innerHeight - (place.getBoundingClientRect().top + scrollY) - MEANT;
  return Math.min(LARGEST, innerWidth > NARROW ? Math.max(NUMERALS, Math.floor(left / heads)) : LARGEST);
}

/**
 * The two heads that are most alike, in a sentence.
 * @param {ArrayLike<number>} values a row for each head @param {string[]} names of the heads
 */
function mostAlike(values, names) {
  const value = (/** @type {number[]} */ [q, k]) => values[q * names.length + k];
  const every = names.flatMap((_, q) => names.slice(0, q).map((_, k) => [q, k]));
  const pairs = every.filter((pair) => value(pair) > -Infinity);
  if (!pairs.length) return [];
  const [q, k] = pairs.reduce((best, pair) => (value(pair) > value(best) ? pair : best));
  return phrase("say_alike", strong(names[k]), strong(names[q]), strong(number(value([q, k]))));
}

/**
 * The traces of some inputs through the same run, while they are wanted; the one that is shown is there.
 * @param {state.Trace} trace @param {string[]} inputs @param {() => boolean} wanted @returns {Promise<string[]>}
 */
async function tracesOf(trace, inputs, wanted) {
  const found = [];
  const options = { edits: read(state.edits.peek()) };
  for (const text of inputs)
    if (wanted())
      found.push(
        text === trace.source
          ? trace.trace_id
          : (await post("/api/v1/traces", { model: trace.model, text, options })).trace_id,
      );
  return found.length ? found : [trace.trace_id];
}

/** @param {number} layer @param {number} head */
function choose(layer, head) {
  state.layer.value = layer;
  state.head.value = head;
}

/**
 * Muting every head, asked for by a button and ended by another.
 * @param {HTMLElement} place @param {state.Trace} trace
 * @param {() => string[]} given inputs
 */
function one_by_one(place, trace, given) {
  const bar = h("progress", { max: 1, value: 0, hidden: true, "aria-label": () => t("muted") });
  const passes = trace.groups.reduce((sum, one) => sum + one.layers.length * one.heads, 0);
  const running = signal(false);
  let stop = /** @type {AbortController | null} */ (null);
  const begin = async () => {
    if (stop) stop.abort();
    const mine = new AbortController();
    stop = mine;
    const texts = given();
    const now = { about: trace.trace_id, texts: texts.join("\n"), rows: /** @type {any[]} */ ([]), done: false };
    muting.value = now;
    bar.hidden = false;
    running.value = true;
    try {
      let heads = 1;
      await postLines("/api/v1/ablations", { model: trace.model, texts }, mine.signal, (line) => {
        if (line.error) throw new Error(line.error);
        if (line.heads) heads = line.heads;
        else if (line.done) {
          muting.value = { ...muting.peek(), done: true };
        } else {
          const rows = [...muting.peek().rows, line];
          muting.value = { ...now, rows };
          bar.value = rows.length / heads;
        }
      });
    } catch (error) {
      state.status.value = mine.signal.aborted ? t("ended") : String(/** @type {any} */ (error).message);
    }
    if (stop !== mine) return;
    bar.hidden = true;
    running.value = false;
  };
  const end = () => stop && stop.abort();
  const table = h("div");
  place.append(
    h(
      "div",
      { class: "controls" },
      h("button", { onclick: begin }, t("muteeach", passes)),
      h("button", { onclick: end, disabled: () => !running.value }, t("stop")),
      bar,
    ),
    table,
  );
  const drawn = effect(() => fill(table, shown(muting.value, trace.groups)));
  return () => {
    end();
    drawn();
  };
}

/** @param {{ rows: any[], done: boolean }} muted @param {state.Group[]} groups */
function shown({ rows: found, done }, groups) {
  if (!found.length) return [];
  const measures = Object.keys(found[0]).filter((name) => name !== "layer" && name !== "head");
  const by = measures.includes("divergence") ? "divergence" : measures[0];
  const rows = [...found].sort((one, two) => two[by] - one[by]);
  // as many decimals as show three digits of the largest, so that numbers can be compared
  const tops = measures.map((name) => Math.max(...rows.map((one) => Math.abs(one[name]))));
  const places = tops.map((top) => Math.min(8, Math.max(2, 2 - Math.floor(Math.log10(top || 1)))));
  const figure = (/** @type {any} */ one, /** @type {number} */ at) => minus(decimals(one[measures[at]], places[at]));
  const cell = (/** @type {any} */ one, /** @type {number} */ at) => {
    const node = h("td", {}, figure(one, at));
    const share = (100 * Math.abs(one[by])) / (tops[at] || 1);
    if (measures[at] === by) node.style.background = `linear-gradient(var(--faint) 0 0) 0 / ${share}% 100% no-repeat`;
    return node;
  };
  const line = (/** @type {any} */ one) => {
    const { title, name, choose } = headOf(one, groups);
    return [
      h("td", { title: one.layer }, brief(title)),
      choose ? h("button", { onclick: choose }, name) : name,
      ...measures.map((_, at) => cell(one, at)),
    ];
  };
  const titles = ["layer", "head", ...measures].map((name) => t(name));
  const [first] = rows;
  const { title, name } = headOf(first, groups);
  const most = closed(
    phrase("say_most_needed", strong(`${title} ${name}`), t(by), strong(figure(first, measures.indexOf(by)))),
  );
  return [
    done && h("p", { class: "say", role: "status" }, most),
    tableOf({ class: "muted" }, titles, rows.map(line)),
    h("p", { class: "note" }, t(`muted_${by}`)),
  ];
}

/**
 * A head that was muted: the title of its group, its short name, and what looks at it, if a group has its map.
 * @param {{ layer: string, head: number }} muted @param {state.Group[]} groups
 */
function headOf({ layer, head }, groups) {
  const group = groups.find(({ layers }) => layers.includes(layer));
  const at = group ? group.layers.indexOf(layer) : 0;
  return {
    title: group ? groupTitle(group, groups) : layerTitle(layer, at),
    name: t("layer_head_short", layerNumber(layer, at), head + 1),
    choose: group
      ? () =>
          batch(() => {
            if (state.chosen() !== group) state.inGroup(group.name);
            choose(at, head);
          })
      : null,
  };
}
