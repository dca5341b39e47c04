// @ts-check
/** One number through every step of a head: the thread, the matrices of a step, and the number worked by hand. */

import { getJson, query } from "../api.js";
import { parseSteps } from "../core/steps.js";
import { minus } from "../core/digits.js";
import { cut } from "../core/text.js";
import { fill, h } from "../dom.js";
import { batch, effect, signal } from "../store.js";
import * as state from "../state.js";
import { learn, phrase, sentences, t } from "../strings.js";
import { headTitle } from "../titles.js";
import { reveal } from "../views/matrix.js";
import * as openStep from "../views/open_step.js";
import { later } from "../views/later.js";
import { picker } from "../views/picker.js";
import { toolbar } from "../views/toolbar.js";
import {
  KINDS,
  LETTERS,
  choosePlace,
  covering,
  crowded,
  headWidth,
  isCrowded,
  isTextbook,
  labels,
} from "../views/tracing.js";
import { place as whereNow, rest, step, steps, supposed, supposition } from "../views/tracing.js";
import { WORDS } from "../words/trace.js";

learn(WORDS);

/** @typedef {import("../core/steps.js").Steps} Steps */

/** Tokens of a list. */
const LISTED = 512;
const refusal = signal("");

/** @param {HTMLElement} place */
export function mount(place) {
  const closing = /** @type {(() => void)[]} */ ([]);
  const [lists, heads, checkpoints] = Array.from({ length: 3 }, () => h("div", { class: "lists" }));
  const changes = h("div", { class: "controls" });
  const [unfolded, opened] = [signal(false), signal(false)];
  const thread = h("div", { class: "thread", role: "tablist", "aria-label": () => t("thread"), onkeydown: threaded });
  const panel = h("section", { class: "panel open-step", role: "tabpanel", id: "open-step" });
  const number = h("section", { class: "worked", "aria-label": () => t("worked") });
  const notes = h("div", { class: "foot" });
  const parts = {
    title: h("div", { class: "row-of" }),
    offered: h("div", { hidden: () => Boolean(steps.value) }),
    chosen: h(
      "div",
      { class: () => (unfolded.value ? "row-of choices unfolded" : "row-of choices") },
      lists,
      h(
        "button",
        {
          class: "settings",
          "aria-expanded": () => String(unfolded.value),
          onclick: () => (unfolded.value = !unfolded.value),
        },
        () => `${unfolded.value ? "▾" : "▸"} ${t("settings")}`,
      ),
      heads,
      checkpoints,
      changes,
    ),
    note: h("p", { class: "flag", hidden: () => !supposed() || isTextbook() }, () => t("supposed_note")),
    body: h("div", { class: () => (isTextbook() ? "trace textbook" : "trace") }, thread, panel, number, notes),
    exercises: exercises(closing, opened),
  };
  place.append(
    h("h1", { class: "unseen" }, () => t("trace")),
    ...Object.values(parts),
  );
  document.addEventListener("keydown", arrowed);
  const ends = [
    effect(() => {
      fill(parts.offered);
      return state.problem.value ? later(() => import("../views/nothing.js"), parts.offered) : undefined;
    }),
    effect(request),
    effect(() => fill(parts.title, heading())),
    effect(() => {
      void state.language.value;
      const trace = isTextbook() ? null : state.trace.value;
      const group = trace && state.chosen();
      const width = steps.value ? headWidth(steps.value) : 0;
      if (!width || (!isTextbook() && !group)) return fill(changes);
      const layer = group ? state.place(group).layer : "";
      return later(() => import("../views/supposing.js"), changes, trace, layer, width);
    }),
    // the worked example has no training
    effect(() => (isTextbook() ? undefined : later(() => import("../views/checkpoints.js"), checkpoints))),
    effect(() => keepFocus(lists, () => fill(lists, choices()))),
    effect(() => {
      const [trace, group] = [state.trace.value, state.chosen()];
      keepFocus(heads, () => fill(heads, trace && group && !isTextbook() ? picker(trace, group) : []));
    }),
    effect(() => {
      [thread, panel, number].forEach((node) => (node.hidden = !steps.value));
    }),
    follow(thread, openStep.chips),
    follow(panel, (all) => openStep.matricesOf(all, panel)),
    follow(number, openStep.oneNumber),
    follow(notes, (all) =>
      [sentences(t("trace_hint"), opened.value ? t("hint_asked") : ""), openStep.exactness(all)].map((words) =>
        h("p", { class: "note" }, words),
      ),
    ),
  ];
  return () => {
    document.removeEventListener("keydown", arrowed);
    rest();
    steps.value = null;
    [...ends, ...closing].forEach((end) => end());
  };
}

/**
 * Exercises of what is shown, once they are opened.
 * @param {(() => void)[]} closing what ends them @param {{ value: boolean }} opened
 */
function exercises(closing, opened) {
  const body = h("div");
  const node = h(
    "details",
    {
      class: "panel to-do",
      hidden: () => !steps.value,
      ontoggle: async () => {
        opened.value = node.open;
        const { mount } = await import("../views/exercises.js");
        if (node.open && !body.childNodes.length) closing.push(mount(body, opened, subtitle));
      },
    },
    h(
      "summary",
      {},
      h("h2", {}, () => t("exercises")),
    ),
    body,
  );
  return node;
}

/** Asks for the steps of the chosen head, with what is supposed of it. */
function request() {
  const [trace, group] = [state.trace.value, state.chosen()];
  const book = isTextbook();
  // a refusal has the words of the language
  void state.language.value;
  refusal.value = "";
  if (!book && (!trace || !group)) {
    steps.value = null;
    return undefined;
  }
  const { layer, head } = group && !book ? state.place(group) : { layer: "textbook", head: 0 };
  const others = supposition();
  const path = book || !trace ? "/api/v1/textbook?" : `/api/v1/traces/${trace.trace_id}/steps?`;
  let alive = true;
  // the worked example is read with fewer words
  const words = book ? null : import("../words/trace_mechanisms.js").then((more) => learn(more.WORDS));
  const asked = getJson(path + query(book ? others : { layer, head, ...others }));
  Promise.all([asked, words]).then(
    ([answer]) => {
      if (!alive) return;
      steps.value = parseSteps(answer);
      document.documentElement.dataset.ready = ["steps", layer, head, ...Object.values(others)].join("/");
    },
    (error) => {
      if (!alive) return;
      steps.value = null;
      refusal.value = error.message;
      if (!book && error.kind === "crowded") crowded.value = trace;
    },
  );
  return () => {
    alive = false;
  };
}

/** The pair in words, what it is of, and the way to the worked example. */
function heading() {
  const all = steps.value;
  if (!all) return [h("p", { role: "status" }, state.problem.value ? "" : refusal.value || t("loading")), sources()];
  const { q, k } = whereNow(all);
  const word = (/** @type {string} */ name, /** @type {string} */ label) =>
    h("bdi", { class: KINDS[name] }, cut(label, LETTERS));
  const sentence = phrase("attends", word("query", all.queries[q]), word("key", all.keys[k]));
  const run = state.trace.value || state.asked();
  const title = h("div", {}, h("h2", {}, sentence), h("p", { class: "note", title: subtitle() }, subtitle()));
  const nodes = !run && state.reads() === "node";
  if (isCrowded() || nodes) return [ofNodes(nodes), title];
  return [title, run ? sources() : h("p", { class: "note" }, t("type_own"))];
}

/** Where the nodes of a graph are looked at. @param {boolean} all whether none is chosen */
function ofNodes(all) {
  const link = h("a", { href: state.address("graph") }, t("graph"));
  const count = state.trace.value?.places.nodes.toLocaleString("en");
  return h("p", { class: "flag", role: "status" }, phrase(all ? "trace_nodes" : "trace_node", link, count));
}

/** The worked example, or the run. */
function sources() {
  const choose = (/** @type {string} */ value) =>
    batch(() => {
      for (const part of [state.query, state.key]) part.value = -1;
      state.column.value = 0;
      state.matrix.value = "";
      state.asItWas();
      state.textbook.value = value;
    });
  const button = (/** @type {string} */ value, /** @type {string} */ name) => {
    const on = isTextbook() === Boolean(value);
    const kind = on ? "tab chosen" : "tab";
    return h("button", { class: kind, "aria-pressed": String(on), onclick: () => choose(value) }, t(name));
  };
  return toolbar(() => t("source_of_numbers"), "seg", button("1", "textbook"), button("", "this_run"));
}

/** The head and its input, in words. */
function subtitle() {
  const [trace, group] = [state.trace.value, state.chosen()];
  if (isTextbook() || !trace || !group) return t("textbook_note");
  const { at, head } = state.place(group);
  return `${headTitle(group, at, head)} · ${trace.source}${trace.output ? ` → ${minus(trace.output)}` : ""}`;
}

/** The lists from which head and pair are chosen. */
function choices() {
  const all = steps.value;
  if (!all) return [];
  const { q, k } = whereNow(all);
  const [rows, columns] = all.by.weights ? all.by.weights.shape : [all.queries.length, all.keys.length];
  const list = (
    /** @type {string} */ name,
    /** @type {string[]} */ words,
    /** @type {number} */ at,
    /** @type {any} */ part,
  ) => {
    const node = h(
      "select",
      { "data-at": name, onchange: () => choosePlace({ [part]: node.selectedIndex }) },
      words.slice(0, LISTED).map((word, number) => h("option", {}, `${number + 1} ${cut(word, LETTERS)}`)),
    );
    node.selectedIndex = at;
    return h("label", { class: KINDS[part === "q" ? "query" : "key"] }, `${t(name)} `, node);
  };
  return [
    h(
      "div",
      { class: "tabs" },
      list("query_token", labels(all, "queries", rows), q, "q"),
      list("key_token", labels(all, "keys", columns), k, "k"),
    ),
  ];
}

/** Follows the steps; what has the focus keeps it. @param {HTMLElement} node @param {(all: Steps) => any[]} work */
const follow = (node, work) =>
  effect(() => {
    const all = steps.value && covering.value(steps.value);
    void [state.language.value, state.dark.value];
    keepFocus(node, () => fill(node, all ? work(all) : []));
  });

/** Arrows go from step to step in the thread. @param {KeyboardEvent} event */
function threaded(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
  if (!by) return;
  event.preventDefault();
  event.stopPropagation();
  step(by);
}

/** And wherever nothing else takes them. @param {KeyboardEvent} event */
function arrowed(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (target.closest("input, select, textarea, dialog, [role=grid], .scrolls")) return;
  threaded(event);
}

/**
 * Draws anew; what has the focus has it again, and what was scrolled stays.
 * @param {HTMLElement} place @param {() => void} draw
 */
function keepFocus(place, draw) {
  const focus = /** @type {HTMLElement | null} */ (document.activeElement);
  const at = focus && place.contains(focus) ? focus.dataset.at : undefined;
  const before = new Map(scrolled(place).map((box) => [box.dataset.of, [box.scrollTop, box.scrollLeft]]));
  draw();
  place.style.removeProperty("--names");
  const names = /** @type {HTMLElement[]} */ ([...place.querySelectorAll(".matrices tbody th")]);
  const widest = Math.max(...names.map((name) => name.getBoundingClientRect().width));
  if (names.length) place.style.setProperty("--names", `${widest}px`);
  for (const box of scrolled(place)) {
    const was = before.get(box.dataset.of);
    if (was) [box.scrollTop, box.scrollLeft] = was;
    reveal(box);
  }
  const chip = /** @type {HTMLElement | null} */ (place.querySelector("[role=tab][aria-selected=true]"));
  if (chip) place.scrollLeft = chip.offsetLeft - place.offsetLeft - (place.clientWidth - chip.offsetWidth) / 2;
  if (!at) return;
  const next = /** @type {HTMLElement | null} */ (place.querySelector(`[data-at="${CSS.escape(at)}"]`));
  if (next) next.focus({ preventScroll: true });
}

/** What holds a matrix that may be larger than its place. @param {HTMLElement} place */
const scrolled = (place) => /** @type {HTMLElement[]} */ ([...place.querySelectorAll(".scrolls[data-of]")]);
