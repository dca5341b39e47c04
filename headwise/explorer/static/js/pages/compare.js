// @ts-check
/** Two heads of any runs, inputs or mechanisms beside each other; measured curves; which pairs there are. */

import { post } from "../api.js";
import { fill, h } from "../dom.js";
import { batch, effect, signal } from "../store.js";
import { read, written } from "../core/edits.js";
import { apart, number, percent, shown } from "../core/text.js";
import * as state from "../state.js";
import { learn, sentences, t } from "../strings.js";
import { groupTitle, headTitle, layerNumber, layerTitle, sidesOf } from "../titles.js";
import * as differing from "../views/difference.js";
import { sentence, swapName } from "../views/edit.js";
import * as gallery from "../views/gallery.js";
import { later, rested } from "../views/later.js";
import { lacking } from "../views/legend.js";
import * as map from "../views/map.js";
import { weightsOf } from "../views/marked.js";
import { nothing, others } from "../views/nothing.js";
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

/** Pixels of a screen on which the choice of both sides is folded, so that the maps come first. */
const NARROW = 700;

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
  const chosen = h(
    "details",
    { class: "choices-of-sides", open: innerWidth > NARROW },
    h("summary", {}, () => t("choose_sides")),
    h("div", { class: "sides" }, side(first), side(second, first)),
  );
  const report = h("section", { class: "panel", "aria-label": () => t("what_differs") });
  const [empty, maps] = [h("div"), h("div", { class: "panels three" })];
  const [row, runs] = [h("section", { class: "panel" }), h("section", { class: "panel" })];
  const reports = h("div", { class: "reports" });
  const lines = h("details", { class: "panel" });
  const pictures = h("details", { class: "panel" });
  place.append(
    h(
      "div",
      { class: "opening" },
      h("h1", {}, () => t("comparison")),
      h("p", { class: "intro" }, () => t("compare_lead")),
    ),
    chosen,
    empty,
    report,
    maps,
    h("div", { class: "report" }, row, runs),
    h("p", { class: "note" }, () => t("note")),
    reports,
    pictures,
    lines,
  );
  const ends = [
    follow(second, first),
    effect(() => drawn({ empty, report, maps, row, runs }, first, second)),
    // they stand below what is compared
    later(() => rested().then(() => import("../views/report.js")), reports),
    later(() => rested().then(() => import("../views/curves.js")), lines),
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
        // of the same input the page says why
        if (error.message !== state.problem.value?.message) state.status.value = `${one.name}: ${error.message}`;
      },
    );
  });
  return () => {
    turn += 1;
    end();
  };
}

/**
 * The input of the first side; where a number means another example to another run, what it stands for.
 * @param {Side} one @param {Side} other
 */
function sameInput(one, other) {
  const given = state.asked();
  const apart = one.model.value && one.model.value !== other.model.value;
  if (!given || !("example" in given) || !apart || state.readsFiles()) return given;
  return other.trace.value && { text: other.trace.value.source };
}

/**
 * The group, layer and head of a side, within those there are; head -1 is the mean of all.
 * @param {Side} one
 * @param {Side} [other] the first side, where this is the second @returns {any}
 */
function placed(one, other) {
  const trace = one.trace.value;
  if (!trace) return null;
  // until it has a group of its own, a side has the kind of layer of the other
  const first = other && !one.group.value ? placed(other) : null;
  const like = first?.group;
  const group = like
    ? trace.groups.find((/** @type {state.Group} */ { name }) => name === like.name) ||
      trace.groups.find((/** @type {state.Group} */ { kind }) => kind === like.kind) ||
      state.groupOf(trace.groups, "")
    : state.groupOf(trace.groups, one.group.value);
  const at = state.layerWithin(group, one.layer.value < 0 && first ? first.at : one.layer.value);
  const layer = group.layers[at];
  const next = one.head.value < -1 && other ? beside(other, trace, layer) : one.head.value;
  const head = openMeans() ? -1 : next;
  return { trace, group, at, layer, head: Math.max(-1, Math.min(head, group.heads - 1)) };
}

/** Heads of two trainings do not correspond: until one is chosen, both sides are means. */
const openMeans = () =>
  !state.averaged.value &&
  state.other.model.value &&
  state.other.model.value !== state.model.value &&
  !state.head.value &&
  state.other.head.value < -1;

/**
 * The head of the first side, or the one behind it where nothing else differs.
 * @param {Side} other @param {any} trace @param {string} layer
 */
function beside(other, trace, layer) {
  const first = placed(other);
  if (!first) return 0;
  const same = first.trace.trace_id === trace.trace_id && first.layer === layer;
  return same && first.head >= 0 ? (first.head + 1) % first.group.heads : first.head;
}

/** @param {Side} one @param {Side} [other] whose run and input are taken where none is given */
function side(one, other) {
  const node = h("fieldset", { class: "side-of" });
  effectOn(node, () => {
    const at = placed(one, other);
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
    const heads = (/** @type {number} */ length) => [
      .../** @type {[any, string][]} */ (length > 1 ? [[-1, t("mean")]] : []),
      ...Array.from({ length }, (_, place) => /** @type {[any, string]} */ ([place, String(place + 1)])),
    ];
    const names = models.map((/** @type {any} */ each) => [each.name, each.name]);
    const text = h("input", {
      type: "text",
      "aria-label": `${one.name}: ${t("input")}`,
      placeholder: t("sameinput"),
      value: one.text.value,
      onchange: () => (one.text.value = text.value),
    });
    return [
      h("legend", { class: `of-${one.name}` }, one.name),
      other
        ? list("model", [["", t("samemodel")], ...names], one.model.value, (value) =>
            batch(() => {
              one.model.value = value;
              // heads of two trainings do not correspond
              if (value && value !== other.model.value) one.head.value = other.head.value = -1;
            }),
          )
        : h("p", { class: "side" }, t("side_of_bar")),
      other && h("label", { class: "grows" }, `${t("input")} `, text),
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
        ? list("head", heads(at.group.heads), at.head, (value) =>
            batch(() => {
              // the other side stays what it is
              if (openMeans()) state.head.value = state.other.head.value = -1;
              one.head.value = Number(value);
              state.averaged.value = "0";
            }),
          )
        : null,
      at
        ? list(
            "mechanism",
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
 * @param {HTMLElement} node @param {() => any[]} work
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
 * What differs, both maps, their difference where they have the same axes, and one row of both.
 * @param {{ empty: HTMLElement, report: HTMLElement, maps: HTMLElement, row: HTMLElement, runs: HTMLElement }} nodes
 * @param {Side} first @param {Side} second
 */
function drawn({ empty, report, maps, row, runs }, first, second) {
  void state.language.value;
  [empty, maps].forEach((node) => fill(node));
  const [a, b] = [placed(first), placed(second, first)];
  for (const node of [report, row, runs]) node.hidden = !a || !b;
  if (!a || !b) {
    const offered = h("div", {
      class: state.reads() && !state.asked() ? "awaited" : null,
      "data-said": t("loading"),
    });
    fill(empty, nothing(), offered);
    if (state.asked()) return others(offered);
    document.documentElement.dataset.ready = "none";
    return state.reads() ? later(() => rested().then(() => import("../views/begin.js")), offered) : undefined;
  }
  let alive = true;
  /** @type {(() => void)[]} */
  const ends = [];
  Promise.all([a, b].map(({ trace, group, layer, head }) => weightsOf(trace, group, layer, head))).then((heads) => {
    if (!alive) return;
    const whole = [a, b].map((one, at) => ({ ...one, ...heads[at], ...titled("AB"[at], one, [a, b]) }));
    ends.push(...shownOf({ report, maps, row, runs }, whole[0], whole[1]));
    document.documentElement.dataset.ready = `compare/${a.trace.trace_id}/${a.head}/${b.trace.trace_id}/${b.head}`;
  }, state.failed);
  return () => {
    alive = false;
    ends.forEach((end) => end());
    state.hovered.value = null;
  };
}

/** What a side is, with its run where there are two. @param {string} name @param {any} one @param {any[]} both */
function titled(name, one, both) {
  const layer = layerTitle(one.layer, one.at, one.group.kind);
  const head = one.head < 0 ? t("layer_head", layer, t("mean_of_all_heads")) : headTitle(one.group, one.at, one.head);
  const swaps = read((name === "A" ? state.edits : state.other.edits).value)
    .map(swapOf)
    .filter(Boolean);
  const run = both[0].trace.model === both[1].trace.model ? [] : [one.trace.model];
  return { name, title: [...run, head, ...swaps].join(" · ") };
}

/** @param {any} edit */
const swapOf = (edit) =>
  edit.kind === "swap" ? edit.normalizer || edit.score || edit.mechanism : edit.kind === "mute" ? sentence(edit) : "";

/**
 * @param {{ report: HTMLElement, maps: HTMLElement, row: HTMLElement, runs: HTMLElement }} nodes
 * @param {any} a @param {any} b what `placed` gives, with weights, name and title
 */
function shownOf({ report, maps, row, runs }, a, b) {
  const alike = differing.alike(a, b);
  const most = alike ? differing.largest(a, b) : null;
  differing.report(report, a, b, most);
  differing.measured(runs, a, b);
  row.hidden = !alike;
  const spot = () => {
    const [q, k] = [state.query.value, state.key.value];
    const within = q >= 0 && q < a.group.queries.length && k < a.group.keys.length;
    return within || !most ? { q, k } : most;
  };
  // of maps with other rows or columns a cell says nothing of the other's
  const room = {
    rows: [a.group.queries, differing.both(b.group.queries, a.group.queries)],
    columns: [a.group.keys, differing.both(b.group.keys, a.group.keys)],
  };
  const cells = () =>
    alike
      ? { cell: state.hovered, spot, pick, room }
      : { cell: signal(/** @type {{ q: number, k: number } | null} */ (null)) };
  // maps that are not subtracted have colours of their own
  const tops = [a, b].map(({ weights }) => largest(weights));
  const top = (/** @type {number} */ at) => (alike ? Math.max(...tops) : tops[at]);
  // a map takes the width that its panel has beside the others
  const panels = [a, b, null].map(() => h("section", { class: "panel" }));
  maps.append(switched(alike ? panels : panels.slice(0, 2)), ...panels);
  maps.classList.toggle("two", !alike);
  return [
    weights(panels[0], a, top(0), cells()),
    weights(panels[1], b, top(1), cells()),
    difference(panels[2], a, b, cells()),
    alike ? differing.row(row, a, b, () => state.hovered.value || spot()) : () => {},
  ];
}

/**
 * Buttons by which a narrow screen, where the maps lie above each other, shows one of them: a difference first.
 * @param {HTMLElement[]} panels
 */
function switched(panels) {
  const names = ["A", "B", t("difference_short")];
  const buttons = panels.map((_, at) => h("button", { class: "tab", onclick: () => show(at) }, names[at]));
  const show = (/** @type {number} */ now) =>
    panels.forEach((panel, at) => {
      panel.classList.toggle("behind", at !== now);
      panel.inert = at !== now && innerWidth <= NARROW;
      buttons[at].classList.toggle("chosen", at === now);
      buttons[at].setAttribute("aria-pressed", String(at === now));
    });
  show(panels.length === 3 ? 2 : 0);
  return h("div", { class: "tabs which-map", role: "group", "aria-label": t("shown_map") }, buttons);
}

/** Locks a cell of all maps. @param {number} q @param {number} k */
const pick = (q, k) => state.lock({ q, k });

/** @typedef {Pick<map.Matrix, "cell" | "spot" | "pick" | "room">} Cells what maps share, or each has alone */

/** @param {HTMLElement} panel @param {any} at a side @param {number} top @param {Cells} cells */
function weights(panel, at, top, cells) {
  const [from, to] = [at.group.queries, at.group.keys].map((side) => apart(side, shown));
  const told = (/** @type {number} */ q, /** @type {number} */ k) =>
    `${from(q)} → ${to(k)} ${said(at.marked[q * at.group.keys.length + k])}`;
  const heading = h("h2", { title: at.layer }, h("span", { class: `of-${at.name}` }, at.name), ` ${at.title}`);
  const body = h("div");
  panel.append(heading, body);
  return map.mount(body, {
    ...cells,
    values: at.marked,
    rows: at.group.queries,
    columns: at.group.keys,
    top,
    title: `${at.name}: ${at.title}`,
    told,
    quantity: t("weight_bar"),
    // it reads what it wrote
    sides: { ...sidesOf(at.group), ...(wrote(at) ? { from: "attends_from" } : {}) },
  });
}

/** Whether the rows of a side go on with what it wrote. @param {any} side */
const wrote = ({ group, trace }) => group.causal && group.kind !== "cross" && trace.output;

/** @param {HTMLElement} panel @param {any} one a side @param {any} two @param {Cells} cells */
function difference(panel, one, two, cells) {
  const [a, b] = [one.group, two.group];
  const body = h("div");
  panel.append(h("h2", {}, t("difference")), body);
  const size = (/** @type {state.Group} */ group) => `${group.queries.length} × ${group.keys.length}`;
  if (!differing.alike(one, two)) {
    const alone = (/** @type {state.Trace} */ { groups }) => groups.every(({ kind }) => kind !== "cross");
    const written = [one, two].filter((side) => wrote(side) && alone(side.trace));
    const words = [
      t("sizes", size(a), size(b)),
      ...written.map(({ name }) => t("wrote_too", name)),
      t("unlike"),
      // what one alone wrote has no row of the other
      written.length === 1 ? "" : t(one.trace.source === two.trace.source ? "unlike_run" : "unlike_input"),
    ];
    body.append(h("p", {}, sentences(...words)));
    return () => {};
  }
  // a pair that both masks forbid has no difference
  const values = two.weights.map((/** @type {number} */ value, /** @type {number} */ place) =>
    one.marked[place] === -Infinity && two.marked[place] === -Infinity ? -Infinity : value - one.weights[place],
  );
  const open = values.filter((/** @type {number} */ value) => value !== -Infinity).map(Math.abs);
  const top = largest(open);
  const same = [...a.queries, ...a.keys].every((token, place) => token === [...b.queries, ...b.keys][place]);
  const [from, to] = [differing.names(one, two, "queries"), differing.names(one, two, "keys")];
  const told = (/** @type {number} */ q, /** @type {number} */ k) =>
    `${from(q)} → ${to(k)} ${withSign(values[q * a.keys.length + k])}`;
  const end = map.mount(body, {
    ...cells,
    values,
    rows: differing.both(a.queries, b.queries),
    columns: differing.both(a.keys, b.keys),
    top,
    signed: true,
    title: t("difference"),
    told,
    quantity: t("signs"),
    sides: sidesOf(a.kind === b.kind ? a : { kind: "" }),
  });
  const mean =
    open.reduce((/** @type {number} */ sum, /** @type {number} */ value) => sum + value, 0) / Math.max(1, open.length);
  const notes = [t("meandifference", percent(mean, 1).replace(" %", "")), same ? "" : t("othertokens")].filter(Boolean);
  body.append(h("p", { class: "legend" }, notes.join(" · ")));
  return end;
}

/** @param {number} value */
const withSign = (value) => `${value > 0 ? "+" : ""}${said(value)}`.replace("+<", "<").replace("-", "−");

/** @param {number} value */
const said = (value) => (value === -Infinity ? lacking() : number(value));

/** @param {ArrayLike<number>} values */
function largest(values) {
  let found = 0;
  for (let place = 0; place < values.length; place += 1) if (values[place] > found) found = values[place];
  return found;
}
