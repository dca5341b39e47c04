// @ts-check
/** Two heads of any runs, inputs or mechanisms beside each other; measured curves; which pairs there are. */

import { post } from "../api.js";
import { fill, h } from "../dom.js";
import { batch, effect, signal } from "../store.js";
import { read, written } from "../core/edits.js";
import { number, shown } from "../core/text.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { groupTitle, headTitle, layerNumber, layerTitle } from "../titles.js";
import * as answers from "../views/answers.js";
import * as curves from "../views/curves.js";
import { sentence, swapName } from "../views/edit.js";
import * as gallery from "../views/gallery.js";
import * as map from "../views/map.js";
import { weightsOf } from "../views/marked.js";
import { explained, nothing } from "../views/nothing.js";
import { WORDS } from "../words/compare.js";

learn(WORDS);

/** @typedef {{ value: any, peek: () => any }} Part */
/** @typedef {{ weights: Float32Array, marked: Float32Array }} Head */
/**
 * @typedef {{ name: string, model: Part, text: Part, group: Part, layer: Part, head: Part, edits: Part, trace: Part }}
 * Side
 */

/** What rows and columns of all maps are. */
const SIDES = { from: "attends_from", to: "attends_to" };
const UNSAID = new Set(["group", "swaplayer"]);
const SWAPS = [
  "",
  "normalizer~sparsemax",
  "normalizer~entmax15",
  "normalizer~relu",
  "normalizer~top_k:2",
  "score~dot",
  "score~distance",
  "mechanism~linear",
];

/** @param {HTMLElement} place @returns {() => void} */
export function mount(place) {
  const first = {
    name: "A",
    model: state.model,
    text: state.text,
    group: state.group,
    layer: state.layer,
    head: state.head,
    edits: state.edits,
    trace: state.trace,
  };
  const second = { name: "B", ...state.other, trace: signal(null) };
  const sides = [first, second];
  const chosen = h("div", { class: "sides" }, side(first, sides), side(second, sides, first));
  const said = h("section", { class: "panel whole" });
  const maps = h("div", { class: "panels three" });
  const row = h("section", { class: "panel whole" });
  const lines = h("section", { class: "panel" });
  const pictures = h("section", { class: "panel" });
  place.append(
    h("h1", {}, () => t("comparison")),
    chosen,
    said,
    maps,
    row,
    h("p", { class: "note" }, () => t("note")),
    lines,
    pictures,
  );
  const ends = [
    follow(second, first),
    effect(() => drawn(maps, said, row, first, second)),
    curves.mount(lines),
    gallery.mount(pictures),
  ];
  return () => ends.forEach((end) => end());
}

/** Asks for the trace of the second side whenever what it is of changes. @param {Side} one @param {Side} other */
function follow(one, other) {
  let turn = 0;
  const end = effect(() => {
    const meta = state.meta.value;
    const [model, edits] = [one.model.value || other.model.value, one.edits.value];
    const given = one.text.value ? { text: one.text.value } : sameInput(one, other);
    turn += 1;
    const mine = turn;
    if (!given || !meta || !meta.models.length) {
      one.trace.value = null;
      return;
    }
    const asked = { model: model || meta.models[0].name, ...given, options: { edits: read(edits) } };
    post("/api/v1/traces", asked).then(
      (found) => {
        if (mine === turn) one.trace.value = found;
      },
      (error) => {
        if (mine !== turn) return;
        one.trace.value = null;
        state.status.value = `${one.name}: ${explained(error.message)}`;
      },
    );
  });
  return () => {
    turn += 1;
    end();
  };
}

/**
 * The input of the first side; a number means another example to another run, which is given what it stands for.
 * @param {Side} one
 * @param {Side} other
 */
function sameInput(one, other) {
  const given = state.asked();
  const apart = one.model.value && one.model.value !== other.model.value;
  if (!given || !("example" in given) || !apart || state.readsFiles()) return given;
  return other.trace.value && { text: other.trace.value.source };
}

/** The group, layer and head of a side, within those there are. @param {Side} one */
function placed(one) {
  const trace = one.trace.value;
  if (!trace) return null;
  const group = state.groupOf(trace.groups, one.group.value);
  const at = state.layerWithin(group, one.layer.value);
  return { trace, group, at, layer: group.layers[at], head: Math.max(0, Math.min(one.head.value, group.heads - 1)) };
}

/** Whether both sides are the mean of their heads: heads of two trainings do not correspond. @param {any[]} sides */
const averaged = ([a, b]) =>
  state.averaged.value ? state.averaged.value === "1" : Boolean(a && b && a.trace.model !== b.trace.model);

/** @param {any} at */
const headOf = ({ group, layer, at, head }, /** @type {boolean} */ mean) =>
  mean ? t("layer_head", layerTitle(layer, at, group.kind), t("meanheads")) : headTitle(group, at, head);

/**
 * What is chosen on a side.
 * @param {Side} one @param {Side[]} both
 * @param {Side} [other] whose run and input are taken where none is given
 */
function side(one, both, other) {
  const node = h("fieldset", { class: "side-of" });
  effectOn(node, () => {
    const at = placed(one);
    const models = state.meta.value ? state.meta.value.models : [];
    const list = (
      /** @type {string} */ name,
      /** @type {[any, string][]} */ items,
      /** @type {any} */ now,
      /** @type {(value: string) => void} */ set,
    ) => {
      const found = h(
        "select",
        { "aria-label": t(name), onchange: () => set(found.value) },
        items.map(([value, words]) => h("option", { value }, words)),
      );
      found.value = String(now);
      // what says itself what it is needs no word
      return UNSAID.has(name) ? found : h("label", {}, `${t(name)} `, found);
    };
    const heads = (/** @type {number} */ length) => [
      .../** @type {[any, string][]} */ (length > 1 ? [[-1, t("mean")]] : []),
      ...Array.from({ length }, (_, place) => /** @type {[any, string]} */ ([place, String(place + 1)])),
    ];
    const mean = averaged(both.map(placed));
    const pick = (/** @type {number} */ head) =>
      batch(() => {
        state.averaged.value = head < 0 ? "1" : "0";
        if (head >= 0) one.head.value = head;
      });
    const names = models.map((/** @type {any} */ each) => [each.name, each.name]);
    const text = h("input", {
      type: "text",
      "aria-label": `${one.name}: ${t("input")}`,
      placeholder: other ? t("sameinput") : t("type"),
      value: other || state.example.value < 0 ? one.text.value : String(state.example.value),
    });
    text.addEventListener("change", () => (other ? (one.text.value = text.value) : state.type(text.value)));
    return [
      h("legend", {}, one.name),
      list(
        "model",
        other ? [["", t("samemodel")], ...names] : names,
        one.model.value || (other ? "" : names[0] && names[0][0]),
        (value) => (one.model.value = value),
      ),
      h("label", { class: "grows" }, `${t("input")} `, text),
      at
        ? list(
            "group",
            at.trace.groups.map((/** @type {state.Group} */ each) => [each.name, groupTitle(each)]),
            at.group.name,
            (value) => batch(() => ((one.group.value = value), (one.layer.value = -1))),
          )
        : null,
      at
        ? list(
            "layer",
            at.group.layers.map((/** @type {string} */ path, /** @type {number} */ place) => [
              place,
              layerNumber(path, place),
            ]),
            at.at,
            (value) => (one.layer.value = Number(value)),
          )
        : null,
      at
        ? list("head", heads(at.group.heads), mean && at.group.heads > 1 ? -1 : at.head, (value) => pick(Number(value)))
        : null,
      at
        ? list(
            "swaplayer",
            SWAPS.map((each) => [each, each ? swapName(each) : t("own")]),
            swapped(one, at.layer),
            (value) => swap(one, at.layer, value),
          )
        : null,
      h("p", { class: "side" }, read(one.edits.value).map(sentence).join(" · ")),
    ];
  });
  return node;
}

/**
 * Draws a node again whenever what it reads changes, and keeps the focus where it was.
 * @param {HTMLElement} node
 * @param {() => any[]} work
 */
function effectOn(node, work) {
  effect(() => {
    const kids = work();
    const focused = [...node.querySelectorAll("select, input")].indexOf(
      /** @type {Element} */ (document.activeElement),
    );
    fill(node, kids);
    const again = /** @type {HTMLElement | undefined} */ ([...node.querySelectorAll("select, input")][focused]);
    if (again) again.focus();
  });
}

/** What computes a layer of a side, "" for its own. @param {Side} one @param {string} layer */
function swapped(one, layer) {
  const found = /** @type {any} */ (read(one.edits.value).find((each) => each.kind === "swap" && each.layer === layer));
  const what = found && ["mechanism", "score", "normalizer"].find((part) => found[part]);
  return what ? `${what}~${found[what]}` : "";
}

/** @param {Side} one @param {string} layer @param {string} value */
function swap(one, layer, value) {
  const rest = read(one.edits.peek()).filter((each) => each.kind !== "swap" || each.layer !== layer);
  const [what, name] = value.split("~");
  one.edits.value = written(value ? [...rest, { kind: "swap", layer, [what]: name }] : rest);
}

/**
 * Both maps, and their difference where they have the same axes; the answers of both, and a row of each.
 * @param {HTMLElement} node @param {HTMLElement} said @param {HTMLElement} row
 * @param {Side} first @param {Side} second
 */
function drawn(node, said, row, first, second) {
  for (const one of [node, said, row]) fill(one);
  const sides = [first, second].map(placed);
  const [a, b] = sides;
  [said.hidden, row.hidden] = [!a || !b, true];
  if (!a || !b) {
    fill(node, nothing());
    return undefined;
  }
  let alive = true;
  const ends = [answers.mount(said, a, b)];
  const mean = averaged(sides);
  const asked = [a, b].map((one) => weightsOf(one.trace, one.group, one.layer, mean ? -1 : one.head));
  Promise.all(asked).then(
    ([one, two]) => {
      if (!alive) return;
      // as wide as they will be
      const panels = [0, 1, 2].map(() => h("section", { class: "panel" }));
      fill(node, panels);
      const top = Math.max(largest(one.weights), largest(two.weights));
      ends.push(weights(panels[0], 0, a, one.marked, top, mean), weights(panels[1], 1, b, two.marked, top, mean));
      ends.push(difference(panels[2], a.group, b.group, one, two));
      row.hidden = !alike(a.group, b.group);
      if (!row.hidden) ends.push(answers.rows(row, a.group, [one.weights, two.weights], farthest(one, two, a.group)));
      const [own, others] = mean ? ["mean", "mean"] : [a.head, b.head];
      document.documentElement.dataset.ready = `compare/${a.trace.trace_id}/${own}/${b.trace.trace_id}/${others}`;
    },
    (error) => (state.status.value = error.message),
  );
  return () => {
    alive = false;
    ends.forEach((end) => end());
    state.hovered.value = null;
  };
}

/** Whether the maps of two groups have the same axes. @param {state.Group} a @param {state.Group} b */
const alike = (a, b) => a.queries.length === b.queries.length && a.keys.length === b.keys.length;

/** The cell in which two heads differ most. @param {Head} one @param {Head} two @param {state.Group} group */
function farthest(one, two, { keys }) {
  const apart = Array.from(one.weights, (weight, at) => Math.abs(weight - two.weights[at]));
  const at = apart.indexOf(Math.max(...apart));
  return { q: Math.floor(at / keys.length), k: at % keys.length };
}

/**
 * @param {HTMLElement} panel
 * @param {number} side 0 or 1
 * @param {any} at
 * @param {ArrayLike<number>} values
 * @param {number} top
 * @param {boolean} mean of the heads
 */
function weights(panel, side, at, values, top, mean) {
  const title = `${"AB"[side]} ${at.trace.model}: ${headOf(at, mean && at.group.heads > 1)}`;
  const told = (/** @type {number} */ q, /** @type {number} */ k) =>
    `${shown(at.group.queries[q])} → ${shown(at.group.keys[k])} ${said(values[q * at.group.keys.length + k])}`;
  panel.append(h("h2", { title: at.layer, class: `side-${side}` }, title));
  const end = map.mount(panel, {
    values,
    rows: at.group.queries,
    columns: at.group.keys,
    top,
    title,
    cell: state.hovered,
    told,
    quantity: t("weight_bar"),
    sides: SIDES,
  });
  panel.append(h("p", { class: "legend" }, answers.zeros(values)));
  return end;
}

/** @param {HTMLElement} panel @param {state.Group} a @param {state.Group} b @param {Head} one @param {Head} two */
function difference(panel, a, b, one, two) {
  panel.append(h("h2", {}, t("difference")));
  const size = (/** @type {state.Group} */ group) => `${group.queries.length} × ${group.keys.length}`;
  if (!alike(a, b)) {
    panel.append(h("p", { class: "unlike" }, `A ${size(a)}, B ${size(b)}. ${t("unlike")}`));
    return () => {};
  }
  // a pair that both masks forbid has no difference
  const values = two.weights.map((value, place) =>
    one.marked[place] === -Infinity && two.marked[place] === -Infinity ? -Infinity : value - one.weights[place],
  );
  const open = values.filter((value) => value !== -Infinity).map(Math.abs);
  const top = largest(open);
  const same = [...a.queries, ...a.keys].every((token, place) => token === [...b.queries, ...b.keys][place]);
  const told = (/** @type {number} */ q, /** @type {number} */ k) =>
    `${shown(a.queries[q])} → ${shown(a.keys[k])} ${withSign(values[q * a.keys.length + k])}`;
  const end = map.mount(panel, {
    values,
    rows: a.queries,
    columns: a.keys,
    top,
    signed: true,
    title: t("difference"),
    cell: state.hovered,
    told,
    quantity: t("signs"),
    sides: SIDES,
  });
  const mean = open.reduce((sum, value) => sum + value, 0) / Math.max(1, open.length);
  panel.append(
    h("p", { class: "legend" }, `${t("meandifference")} ${number(mean)}`, same ? "" : ` · ${t("othertokens")}`),
  );
  return end;
}

/** @param {number} value */
const withSign = (value) => `${value > 0 ? "+" : ""}${said(value)}`;

/** @param {number} value */
const said = (value) => (value === -Infinity ? t("forbidden") : number(value));

/** @param {ArrayLike<number>} values */
function largest(values) {
  let found = 0;
  for (let place = 0; place < values.length; place += 1) if (values[place] > found) found = values[place];
  return found;
}
