// @ts-check
/** Nodes and what they attend to: a drawing, the weights between them, how evenly each spreads its own. */

import { getJson, getNumbers, query as asked } from "../api.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { batch, effect, signal } from "../store.js";
import { learn, t } from "../strings.js";
import { headTitle, layerNumber, layerTitle } from "../titles.js";
import { answer } from "../views/answer.js";
import * as examples from "../views/examples.js";
import * as fitting from "../views/fitting.js";
import { later } from "../views/later.js";
import * as nothing from "../views/nothing.js";
import * as nodeLink from "../views/node_link.js";
import { WORDS } from "../words/graph.js";

learn(WORDS);

/** @typedef {{ place: number, name: string, kind: string, hop: number, x: number, y: number, heard: number }} Node */
/**
 * @typedef {{ nodes: Node[], kinds: [string, string][], pairs: number[][], bonds: number[][], left: number, total:
 * number }} Part
 */
/**
 * `entropies` of all layers and heads, one behind the other.
 * @typedef {{ trace: state.Trace, group: state.Group, part: Part, weights: ArrayLike<number>, entropy:
 * ArrayLike<number>, entropies: any, at: number, head: number, title: string, path: string }} Seen
 */

/** @param {HTMLElement} place */
export function mount(place) {
  const top = h("div");
  const [answerLine, bar] = [h("div", { class: "answer-line" }), h("div", { class: "tabs" })];
  const drawing = h("section", { class: "panel" });
  const read = h("section", { class: "panel read" });
  const matrix = h("section", { class: "panel" });
  const chart = h("section", { class: "panel wide spread" });
  place.append(
    h("h1", { class: "unseen" }, () => t("graph")),
    top,
    answerLine,
    bar,
    h("div", { class: "graph" }, drawing, read),
    h("div", { class: "panels below" }, matrix, chart),
  );
  const seen = signal(/** @type {Seen | null} */ (null));
  const drawn = (/** @type {HTMLElement} */ node, /** @type {(node: HTMLElement, now: Seen) => () => void} */ work) =>
    effect(() => {
      const now = seen.value;
      fill(node);
      node.hidden = !now;
      return now ? work(node, now) : undefined;
    });
  const ends = [
    effect(() => {
      fill(top);
      const refused = fitting.mount(top, ({ input }) => /^(node|molecule)$/.test(input), "no_graph");
      if (refused) return refused;
      const ends = [examples.mount(top), nothing.mount(top)];
      return () => ends.forEach((end) => end());
    }),
    effect(() => {
      const [trace, group] = [state.trace.value, chosen()];
      void state.language.value;
      fill(answerLine, trace && group ? answer(trace, group) : "");
    }),
    effect(() => fill(bar, controls())),
    effect(() => followed(seen)),
    drawn(drawing, nodeLink.mount),
    drawn(read, nodeLink.reading),
    drawn(matrix, adjacency),
    drawn(chart, charted),
  ];
  return () => ends.forEach((end) => end());
}

/** The chart below, which comes when there is something in it. @param {HTMLElement} node @param {Seen} seen */
const charted = (node, seen) => later(() => import("../views/spread.js"), node, seen);

/** The groups whose rows and columns are the nodes. */
function groups() {
  const trace = state.trace.value;
  const nodes = (/** @type {state.Group} */ one) =>
    trace && trace.axes[one.name].queries.kind === "nodes" && trace.axes[one.name].keys.kind === "nodes";
  return trace ? trace.groups.filter(nodes) : [];
}

/** The one that is chosen, or the first. */
function chosen() {
  const all = groups();
  return all.find((one) => one.name === state.group.value) || all[0] || null;
}

/** The map below, drawn anew where self-loops come or go. @param {HTMLElement} node @param {Seen} seen */
function adjacency(node, seen) {
  void [state.loops.value, state.language.value];
  return later(() => import("../views/graph_map.js"), node, seen);
}

function controls() {
  const group = chosen();
  const trace = state.trace.value;
  if (!group || !trace) return [];
  const { at, head } = state.place(group);
  // layers with other numbers of heads are other groups; nobody need know
  const layers = groups().flatMap((one) => one.layers.map((path, place) => ({ one, path, place })));
  const numbers = layers.map(({ path, place }) => layerNumber(path, place));
  const apart = new Set(numbers).size === numbers.length;
  const names = layers.map(({ one, path, place }, number) =>
    apart ? numbers[number] : layerTitle(path, place, one.kind),
  );
  const now = layers.findIndex(({ one, place }) => one === group && place === at);
  return [
    choice("layer", names, now, (number) => toLayer(layers[number])),
    choice("head", upTo(group.heads), head, (number) => state.go(group, { head: number })),
    trace.places.chosen === null
      ? null
      : choice(
          "hops",
          Array.from({ length: nodeLink.MOST_STEPS }, (_, at) => at + 1).map((count) =>
            t(count > 1 ? "steps_n" : "steps_1", count),
          ),
          state.hops.value - 1,
          (number) => (state.hops.value = number + 1),
        ),
    loops(),
  ].filter(Boolean);
}

/** @param {number} count */
const upTo = (count) => Array.from({ length: count }, (_, number) => String(number + 1));

/** @param {{ one: state.Group, place: number }} layer */
const toLayer = ({ one, place }) =>
  batch(() => {
    state.group.value = one.name;
    state.layer.value = place;
  });

/** Whether what a node takes from itself is shown. */
function loops() {
  const box = h("input", {
    type: "checkbox",
    checked: () => !state.loops.value,
    onchange: () => (state.loops.value = box.checked ? "" : "off"),
  });
  const hidden = h("span", { class: "legend", hidden: () => !state.loops.value }, t("loops_hidden"));
  return h("label", { class: "box" }, box, t("self_loops"), hidden);
}

/** @param {string} name @param {string[]} names @param {number} now @param {(value: number) => void} set */
function choice(name, names, now, set) {
  if (names.length < 2) return null;
  const select = h(
    "select",
    { "aria-label": t(name), onchange: () => set(select.selectedIndex) },
    names.map((words) => h("option", {}, words)),
  );
  select.selectedIndex = now;
  return h("label", { class: "slider" }, t(name), select);
}

/** Asks for the nodes and for what they look at. @param {{ value: Seen | null }} seen */
function followed(seen) {
  const [trace, group] = [state.trace.value, chosen()];
  if (!trace || !group) {
    seen.value = null;
    return undefined;
  }
  const { at, head } = state.place(group);
  const hops = Math.max(1, Math.min(nodeLink.MOST_STEPS, state.hops.value));
  const path = `/api/v1/traces/${trace.trace_id}`;
  const which = asked({ group: group.name, hops, ...(trace.places.chosen === null ? { most: 120 } : {}) });
  let alive = true;
  Promise.all([
    getJson(`${path}/graph?${which}`),
    getNumbers(`${path}/edges?${which}`),
    getNumbers(`${path}/spread?${which}`),
  ]).then(
    ([part, edges, entropies]) => {
      if (!alive) return;
      const cut = (/** @type {import("../core/npy.js").Numbers} */ all) => {
        const [, heads, count] = all.shape;
        return all.data.subarray((at * heads + head) * count, (at * heads + head + 1) * count);
      };
      const title = headTitle(group, at, head);
      seen.value = {
        trace,
        group,
        part,
        weights: cut(edges),
        entropy: cut(entropies),
        entropies: entropies.data,
        at,
        head,
        title,
        path: group.layers[at],
      };
      document.documentElement.dataset.ready = `graph/${group.name}/${at}/${head}/${hops}`;
    },
    (error) => {
      if (!alive) return;
      seen.value = null;
      state.failed(error);
    },
  );
  return () => {
    alive = false;
  };
}
