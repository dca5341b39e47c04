// @ts-check
/** An image and what each head looks at on it, from the place that is chosen; rollout through all layers. */

import { getNumbers, query as asked } from "../api.js";
import { of, picture } from "../core/overlay.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { effect, signal } from "../store.js";
import { learn, t } from "../strings.js";
import { headName, layerTitle } from "../titles.js";
import * as examples from "../views/examples.js";
import { fitting } from "../views/fitting.js";
import * as overlay from "../views/overlay.js";
import * as overlayGrid from "../views/overlay_grid.js";
import * as pixelLabels from "../views/pixel_labels.js";
import { WORDS } from "../words/vision.js";

learn(WORDS);

/** @typedef {import("../core/npy.js").Numbers} Numbers */
/**
 * @typedef {{ trace: state.Trace, group: state.Group, axis: any, image: HTMLCanvasElement, weights: Numbers, q:
 * number, title: string }} Seen
 */

/** @param {HTMLElement} place @returns {() => void} */
export function mount(place) {
  const top = h("div");
  const tabs = h("div", { class: "tabs" });
  const large = h("section", { class: "panel seen" });
  const grid = h("section", { class: "panel", "aria-label": () => t("heads") });
  const rolled = h("section", { class: "panel seen" });
  const labels = h("section", { class: "panel", hidden: true });
  place.append(
    h("h1", { class: "unseen" }, () => t("vision")),
    top,
    tabs,
    h("div", { class: "panels" }, large, h("div", { class: "stack wide" }, labels, grid, rolled)),
    h("p", { class: "note" }, () => t("note")),
  );
  const seen = signal(/** @type {Seen | null} */ (null));
  const ends = [
    effect(() => given(top)),
    effect(() => fill(tabs, groups().map(tab))),
    effect(() => followed(seen)),
    effect(() => {
      const now = seen.value;
      const focused = focus(large);
      fill(large);
      const end = now ? overlay.mount(large, now, options(now)) : undefined;
      focused();
      return end;
    }),
    effect(() => {
      const now = seen.value;
      fill(grid);
      if (now) overlayGrid.mount(grid, now);
    }),
    effect(() => rollout(rolled, seen.value)),
    effect(() => labelled(labels)),
  ];
  return () => ends.forEach((end) => end());
}

/** What is to be looked at, or which runs can be. @param {HTMLElement} top */
function given(top) {
  fill(top);
  return fitting(top, ["image"], "no_images") ? examples.mount(top) : undefined;
}

/**
 * Gives the focus back to the picture that is drawn anew, where the last one had it.
 * @param {HTMLElement} node
 * @returns {() => void}
 */
function focus(node) {
  const picture = () => /** @type {HTMLElement | null} */ (node.querySelector("canvas.over"));
  return picture() && picture() === document.activeElement ? () => picture()?.focus() : () => {};
}

/** The groups whose keys are places of the image. */
function groups() {
  const trace = state.trace.value;
  return trace ? trace.groups.filter((one) => trace.axes[one.name].keys.kind === "patches") : [];
}

/** The one that is chosen, or the last: where a model writes, what it writes looks at the image. */
function chosen() {
  const all = groups();
  return all.find((one) => one.name === state.group.value) || all[all.length - 1] || null;
}

/** @param {state.Group} group */
const tab = (group) =>
  h(
    "button",
    { class: () => (chosen() === group ? "tab chosen" : "tab"), onclick: () => (state.group.value = group.name) },
    group.name,
  );

/**
 * The query that is looked at: the one that was clicked, else that of the explanation; -1: the mean of all.
 * @param {state.Trace} trace
 * @param {state.Group} group
 */
function queried(trace, group) {
  const own = trace.axes[group.name].queries.kind === "patches" ? trace.places.chosen : null;
  const now = state.query.value < 0 ? own : state.query.value;
  return now === null || now >= group.queries.length ? -1 : now;
}

/** Asks for what the query looks at, in all layers and heads. @param {{ value: Seen | null }} seen */
function followed(seen) {
  const [trace, group] = [state.trace.value, chosen()];
  if (!trace || !group) {
    seen.value = null;
    return undefined;
  }
  const q = queried(trace, group);
  const at = `/api/v1/traces/${trace.trace_id}`;
  const path = q < 0 ? `${at}/mean?${asked({ group: group.name })}` : `${at}/row?${asked({ group: group.name, q })}`;
  let alive = true;
  Promise.all([getNumbers(`${at}/image`), getNumbers(path)]).then(
    ([image, weights]) => {
      if (!alive) return;
      const title = q < 0 ? t("mean_of_queries") : group.queries[q];
      const axis = trace.axes[group.name].keys;
      seen.value = { trace, group, axis, image: picture(image), weights, q, title };
    },
    (error) => {
      if (alive) state.status.value = error.message;
    },
  );
  return () => {
    alive = false;
  };
}

/** What the large picture shows. @param {Seen} seen */
function options(seen) {
  const queries = seen.trace.axes[seen.group.name].queries;
  const { at, layer } = state.place(seen.group);
  const head = state.each.value ? Math.min(state.head.value, seen.group.heads - 1) : -1;
  const named = head < 0 ? t("mean_of_heads") : headName(head);
  return {
    weights: of(seen.weights, at, head),
    heading: `${seen.title} → ${t("layer_head", layerTitle(layer, at, seen.group.kind), named)}`,
    places: queries.kind === "patches",
    words: queries.kind === "patches" ? [] : seen.group.queries,
    q: seen.q,
    ready: `vision/${seen.group.name}/${at}/${head}/${seen.q}`,
  };
}

/** What the pixels are said to be, where a run tells that. @param {HTMLElement} node */
function labelled(node) {
  const trace = state.trace.value;
  // its words are those of the language
  void state.language.value;
  fill(node);
  const classes = trace && trace.places && trace.places.classes ? trace.places.classes : [];
  node.hidden = !classes.length;
  if (!trace || !classes.length) return undefined;
  let alive = true;
  getNumbers(`/api/v1/traces/${trace.trace_id}/labels`).then(
    (found) => {
      if (alive) pixelLabels.mount(node, classes, found);
    },
    (error) => (state.status.value = error.message),
  );
  return () => {
    alive = false;
  };
}

/** @param {HTMLElement} node @param {Seen | null} seen */
function rollout(node, seen) {
  const focused = focus(node);
  fill(node);
  const fits =
    seen &&
    seen.group.kind === "self" &&
    seen.group.layers.length > 1 &&
    seen.trace.axes[seen.group.name].queries.kind === "patches";
  node.hidden = !fits;
  if (!seen || !fits) return undefined;
  const { q } = seen;
  let alive = true;
  let end = () => {};
  getNumbers(`/api/v1/traces/${seen.trace.trace_id}/rollout?${asked({ group: seen.group.name })}`).then(
    (found) => {
      if (!alive) return;
      const heading = `${t("rollout")}: ${seen.title}`;
      const weights = row(found, q);
      end = overlay.mount(node, seen, {
        weights,
        heading,
        places: true,
        words: [],
        q,
        ready: "",
        note: t("rollout_note"),
      });
      focused();
    },
    (error) => {
      node.hidden = true;
      state.status.value = error.message;
    },
  );
  return () => {
    alive = false;
    end();
  };
}

/** A row of a matrix, or the mean of all. @param {Numbers} matrix @param {number} q */
function row(matrix, q) {
  const [rows, columns] = matrix.shape;
  if (q >= 0) return matrix.data.subarray(q * columns, (q + 1) * columns);
  const found = new Float32Array(columns);
  matrix.data.forEach((value, place) => (found[place % columns] += value / rows));
  return found;
}
