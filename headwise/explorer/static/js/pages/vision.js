// @ts-check
/** An image and what each head looks at on it, from the place that is chosen; rollout through all layers. */

import { getNumbers, query as asked } from "../api.js";
import { firstWord, of, picture, sharpest } from "../core/overlay.js";
import { number } from "../core/text.js";
import { fill, h } from "../dom.js";
import { inside } from "../inside.js";
import * as state from "../state.js";
import { effect, signal } from "../store.js";
import { learn, sentences, t } from "../strings.js";
import { groupTitle, headName, layerTitle } from "../titles.js";
import { answer } from "../views/answer.js";
import * as examples from "../views/examples.js";
import * as fitting from "../views/fitting.js";
import { OF_INPUTS, choice } from "../views/methods.js";
import * as nothing from "../views/nothing.js";
import * as overlay from "../views/overlay.js";
import * as overlayGrid from "../views/overlay_grid.js";
import * as patchReading from "../views/patch_reading.js";
import * as pixelLabels from "../views/pixel_labels.js";
import { WORDS } from "../words/vision.js";

learn(WORDS);

/** Pixels of a screen on which pictures come before what they are made with. */
const NARROW = 760;

/** @typedef {import("../core/npy.js").Numbers} Numbers */
/**
 * @typedef {{ trace: state.Trace, group: state.Group, axis: any, image: HTMLCanvasElement, weights: Numbers, q:
 * number }} Seen
 */

/** @param {HTMLElement} place */
export function mount(place) {
  const top = h("div");
  const [answerLine, tabs] = [h("div", { class: "answer-line" }), h("div", { class: "tabs" })];
  const grid = h("section", { class: "panel", "aria-label": () => t("heads") });
  const large = h("section", { class: "panel wide seen" });
  const read = h("section", { class: "panel read" });
  const labels = h("section", { class: "panel wide", hidden: true });
  const rolled = h("section", { class: "panel seen find" });
  const shown = h("div", { class: "attend pictured" }, grid, large, read, rolled);
  place.append(
    h("h1", { class: "unseen" }, () => t("vision")),
    top,
    answerLine,
    tabs,
    shown,
    h("div", { class: "panels below" }, labels),
  );
  const seen = signal(/** @type {Seen | null} */ (null));
  const ends = [
    effect(() => given(top)),
    effect(() => {
      const [trace, group] = [state.trace.value, chosen()];
      void state.language.value;
      const nameless = trace && /^LABEL_\d/.test(trace.output);
      fill(
        answerLine,
        trace && group ? answer(trace, group) : "",
        nameless ? h("span", { class: "note" }, t("no_class_names")) : "",
      );
    }),
    effect(() => {
      const all = groups();
      fill(
        tabs,
        ...(all.length > 1 ? [h("span", { class: "seg" }, all.map(tab))] : []),
        ...(all.length ? [how()] : []),
      );
    }),
    effect(() => followed(seen)),
    effect(() => void (shown.hidden = !seen.value)),
    effect(() => {
      const now = seen.value;
      const focused = focus(large);
      fill(large);
      if (!now) return undefined;
      const what = options(now);
      const averaged = headOf(now) < 0;
      if (OF_INPUTS.includes(state.by.value)) return counted(large, read, now);
      const ends = [overlay.mount(large, now, what), patchReading.mount(read, now, what, averaged)];
      focused();
      return () => ends.forEach((end) => end());
    }),
    effect(() => {
      const now = seen.value;
      if (now) overlayGrid.mount(grid, now, () => headOf(now));
    }),
    effect(() => rollout(rolled, seen.value)),
    effect(() => labelled(labels)),
  ];
  return () => {
    overlay.pointed.value = -1;
    ends.forEach((end) => end());
  };
}

/** What is to be looked at, or which runs can be. @param {HTMLElement} top */
function given(top) {
  fill(top);
  const refused = fitting.mount(top, ({ input }) => input === "image", "no_images");
  if (refused) return refused;
  top.append(h("p", { class: "note", hidden: () => Boolean(state.trace.value) }, () => t("vision_shows")));
  const ends = [examples.mount(top), nothing.mount(top)];
  return () => ends.forEach((end) => end());
}

/**
 * Gives the focus back to the picture that is drawn anew, where the last one had it.
 * @param {HTMLElement} node @returns {() => void}
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
    {
      class: () => (chosen() === group ? "tab chosen" : "tab"),
      "aria-pressed": () => String(chosen() === group),
      onclick: () => (state.group.value = group.name),
    },
    () => groupTitle(group),
  );

/**
 * The query that is looked at: the one that was clicked, else that of the explanation; -1: the mean of all.
 * @param {state.Trace} trace @param {state.Group} group
 */
function queried(trace, group) {
  const own = trace.axes[group.name].queries.kind === "patches" ? trace.places.chosen : firstWord(group.queries);
  const now = state.query.value < 0 ? own : state.query.value;
  return now === null || now >= group.queries.length ? -1 : now;
}

/** How the picture is shown; on a narrow screen it is folded. */
const how = () =>
  h(
    "details",
    { class: "how", open: innerWidth > NARROW },
    h("summary", {}, () => t("how_shown")),
    h("div", { class: "tabs" }, overlay.controls(), methods()),
  );

/** What may stand in place of weights; a page that was saved holds what it showed. */
const methods = () => (inside() ? "" : choice(OF_INPUTS, state.by.value));

/**
 * What counts by a method, in place of weights.
 * @param {HTMLElement} node @param {HTMLElement} read @param {Seen} now
 */
function counted(node, read, now) {
  let [end, alive] = [() => {}, true];
  const head = state.each.value === "1" && now.group.heads > 1 ? state.place(now.group).head : -1;
  import("../views/overlay_method.js").then((view) => {
    if (alive) end = view.mount(node, read, now, head);
  });
  return () => {
    alive = false;
    end();
  };
}

/**
 * Asks for what the query looks at, in all layers and heads.
 * @param {{ value: Seen | null, peek: () => Seen | null }} seen
 */
function followed(seen) {
  const [trace, group] = [state.trace.value, chosen()];
  if (!trace || !group) {
    seen.value = null;
    return undefined;
  }
  const q = queried(trace, group);
  const before = seen.peek();
  if (before?.trace === trace && before.group === group && before.q === q) return undefined;
  const at = `/api/v1/traces/${trace.trace_id}`;
  const path = q < 0 ? `${at}/mean?${asked({ group: group.name })}` : `${at}/row?${asked({ group: group.name, q })}`;
  let alive = true;
  Promise.all([getNumbers(`${at}/image`), getNumbers(path)]).then(
    ([image, weights]) => {
      if (!alive) return;
      const axis = trace.axes[group.name].keys;
      seen.value = { trace, group, axis, image: picture(image), weights, q };
    },
    (error) => {
      if (alive) state.failed(error);
    },
  );
  return () => {
    alive = false;
  };
}

/** The head that is looked at: the chosen one, or that which sees fewest places; -1: the mean. @param {Seen} seen */
function headOf({ group, weights, axis }) {
  const { at, head } = state.place(group);
  if (group.heads === 1 || state.each.value === "1") return head;
  return state.each.value ? -1 : sharpest(weights, at, axis);
}

/** What the large picture shows. @param {Seen} seen */
function options(seen) {
  const queries = seen.trace.axes[seen.group.name].queries;
  const { at, layer } = state.place(seen.group);
  const head = headOf(seen);
  const named = head < 0 ? t("mean_of_heads") : headName(head);
  return {
    weights: of(seen.weights, at, head),
    heading: t("layer_head", layerTitle(layer, at, seen.group.kind), named),
    path: layer,
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
  getNumbers(`/api/v1/traces/${trace.trace_id}/labels`).then((found) => {
    if (alive) pixelLabels.mount(node, classes, found);
  }, state.failed);
  return () => {
    alive = false;
  };
}

/** @param {HTMLElement} node @param {Seen | null} seen */
function rollout(node, seen) {
  const focused = focus(node);
  fill(node);
  // among the methods it is one
  const fits =
    seen &&
    !OF_INPUTS.includes(state.by.value) &&
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
      const from = q < 0 ? t("mean_of_queries") : overlay.named(q, seen.axis);
      const heading = `${t("rollout")}: ${from}`;
      const weights = row(found, q);
      end = overlay.mount(node, seen, {
        weights,
        heading,
        places: true,
        words: [],
        q,
        ready: "",
        note: sentences(t("rollout_note"), t("rollout_even", weights.length, number(1 / weights.length))),
      });
      focused();
    },
    (error) => {
      node.hidden = true;
      state.failed(error);
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
