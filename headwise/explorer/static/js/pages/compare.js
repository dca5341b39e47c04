// @ts-check
/** Two heads of any runs, inputs or mechanisms beside each other; measured curves; which pairs there are. */

import { post } from "../api.js";
import { fill, h } from "../dom.js";
import { batch, effect, signal } from "../store.js";
import { read, written } from "../core/edits.js";
import { number, shown } from "../core/text.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { groupTitle, headTitle, layerNumber } from "../titles.js";
import * as curves from "../views/curves.js";
import { sentence, swapName } from "../views/edit.js";
import * as gallery from "../views/gallery.js";
import * as map from "../views/map.js";
import { weightsOf } from "../views/marked.js";
import { explained, nothing } from "../views/nothing.js";
import * as report from "../views/report.js";
import { WORDS } from "../words/compare.js";

learn(WORDS);

/** @typedef {{ value: any, peek: () => any }} Part */
/** @typedef {{ weights: Float32Array, marked: Float32Array }} Head */
/**
 * @typedef {{ name: string, model: Part, text: Part, group: Part, layer: Part, head: Part, edits: Part, trace: Part }}
 * Side
 */

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
  const chosen = h("div", { class: "sides" }, side(first), side(second, first));
  const maps = h("div", { class: "panels three" });
  const reports = h("div", { class: "reports" });
  const lines = h("section", { class: "panel" });
  const pictures = h("section", { class: "panel" });
  place.append(
    h("h1", {}, () => t("comparison")),
    chosen,
    maps,
    h("p", { class: "note" }, () => t("note")),
    reports,
    lines,
    pictures,
  );
  const ends = [
    follow(second, first),
    effect(() => drawn(maps, first, second)),
    report.mount(reports),
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

/**
 * What is chosen on a side.
 * @param {Side} one
 * @param {Side} [other] whose run and input are taken where none is given
 */
function side(one, other) {
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
        { onchange: () => set(found.value) },
        items.map(([value, words]) => h("option", { value }, words)),
      );
      found.value = String(now);
      return h("label", {}, `${t(name)} `, found);
    };
    const heads = (/** @type {number} */ length) =>
      Array.from({ length }, (_, place) => /** @type {[any, string]} */ ([place, String(place + 1)]));
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
      at ? list("head", heads(at.group.heads), at.head, (value) => (one.head.value = Number(value))) : null,
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
 * Both maps, and their difference where they have the same axes.
 * @param {HTMLElement} node
 * @param {Side} first
 * @param {Side} second
 */
function drawn(node, first, second) {
  fill(node);
  const sides = [first, second].map(placed);
  const [a, b] = sides;
  if (!a || !b) {
    fill(node, nothing());
    return undefined;
  }
  let alive = true;
  /** @type {(() => void)[]} */
  const ends = [];
  const asked = [a, b].map((one) => weightsOf(one.trace, one.group, one.layer, one.head));
  Promise.all(asked).then(
    ([one, two]) => {
      if (!alive) return;
      const top = Math.max(largest(one.weights), largest(two.weights));
      ends.push(weights(node, "A", a, one.marked, top), weights(node, "B", b, two.marked, top));
      ends.push(difference(node, a.group, b.group, one, two));
      document.documentElement.dataset.ready = `compare/${a.trace.trace_id}/${a.head}/${b.trace.trace_id}/${b.head}`;
    },
    (error) => (state.status.value = error.message),
  );
  return () => {
    alive = false;
    ends.forEach((end) => end());
    state.hovered.value = null;
  };
}

/**
 * @param {HTMLElement} node
 * @param {string} name
 * @param {any} at
 * @param {ArrayLike<number>} values
 * @param {number} top
 */
function weights(node, name, at, values, top) {
  const title = `${name}: ${at.trace.model}, ${headTitle(at.group, at.at, at.head)}`;
  const told = (/** @type {number} */ q, /** @type {number} */ k) =>
    `${shown(at.group.queries[q])} → ${shown(at.group.keys[k])} ${said(values[q * at.group.keys.length + k])}`;
  const panel = h("section", { class: "panel" }, h("h2", { title: at.layer }, title));
  node.append(panel);
  const end = map.mount(panel, {
    values,
    rows: at.group.queries,
    columns: at.group.keys,
    top,
    title,
    cell: state.hovered,
    told,
  });
  panel.append(h("p", { class: "legend" }, `0 … ${number(top)}${hatched(values)}`));
  return end;
}

/** @param {HTMLElement} node @param {state.Group} a @param {state.Group} b @param {Head} one @param {Head} two */
function difference(node, a, b, one, two) {
  const panel = h("section", { class: "panel" }, h("h2", {}, t("difference")));
  node.append(panel);
  const size = (/** @type {state.Group} */ group) => `${group.queries.length} × ${group.keys.length}`;
  if (size(a) !== size(b)) {
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
  });
  const mean = open.reduce((sum, value) => sum + value, 0) / Math.max(1, open.length);
  panel.append(
    h(
      "p",
      { class: "legend" },
      [`−${number(top)} … +${number(top)}`, t("signs"), `${t("meandifference")} ${number(mean)}`].join(" · "),
      same ? "" : ` · ${t("othertokens")}`,
      hatched(values),
    ),
  );
  return end;
}

/** @param {number} value */
const withSign = (value) => `${value > 0 ? "+" : ""}${said(value)}`;

/** @param {number} value */
const said = (value) => (value === -Infinity ? t("forbidden") : number(value));

/** What the hatching means, where there is any. @param {ArrayLike<number>} values */
const hatched = (values) => (Array.prototype.includes.call(values, -Infinity) ? ` · ▨ ${t("forbidden")}` : "");

/** @param {ArrayLike<number>} values */
function largest(values) {
  let found = 0;
  for (let place = 0; place < values.length; place += 1) if (values[place] > found) found = values[place];
  return found;
}
