// @ts-check
/** One number through every step of a head: the thread, the matrices of a step, and the number worked by hand. */

import { getJson, query } from "../api.js";
import { placesOf, short, significant, weight } from "../core/digits.js";
import { formula } from "../core/formula.js";
import * as made from "../core/steps.js";
import { cut, percent } from "../core/text.js";
import { fill, h } from "../dom.js";
import { batch, effect, signal } from "../store.js";
import * as state from "../state.js";
import { learn, phrase, t } from "../strings.js";
import { headTitle } from "../titles.js";
import { largestCell } from "../views/largest.js";
import { matrix, reveal } from "../views/matrix.js";
import { picker } from "../views/picker.js";
import * as supposing from "../views/supposing.js";
import { toolbar } from "../views/toolbar.js";
import { worked } from "../views/worked.js";
import { WORDS } from "../words/trace.js";

learn(WORDS);

/** @typedef {import("../core/steps.js").Steps} Steps */
/** @typedef {import("../core/steps.js").Step} Step */
/** @typedef {import("../core/steps.js").Link} Link */

const PLAY_MS = 2200;
/** Columns, and keys, of which the numbers are shown at once; tokens of a list, letters of a token. */
const [NARROW, SQUARE, LISTED, LETTERS] = [8, 14, 512, 16];
/** @type {Record<string, string>} */
const KINDS = { query: "of-query", key: "of-key", value: "of-value" };

/** The steps that are shown, and whether those of a head are still to come. */
const steps = signal(/** @type {Steps | null} */ (null));
/** The timer of the player, 0 where it rests. */
const playing = signal(0);

/** @param {HTMLElement} place @returns {() => void} */
export function mount(place) {
  const closing = /** @type {(() => void)[]} */ ([]);
  const [lists, changes] = [h("div", { class: "lists" }), h("div", { class: "controls" })];
  const thread = h("div", { class: "thread", role: "tablist", "aria-label": () => t("thread"), onkeydown: threaded });
  const panel = h("section", { class: "panel open-step", role: "tabpanel", id: "open-step" });
  const number = h("section", { class: "worked", "aria-label": () => t("worked") });
  const notes = h("div", { class: "foot" });
  const parts = {
    title: h("div", { class: "row-of" }),
    chosen: h("div", { class: "row-of choices" }, lists, changes),
    note: h("p", { class: "flag", hidden: () => !supposing.supposed() || isTextbook() }, () => t("supposed_note")),
    body: h("div", { class: () => (isTextbook() ? "trace textbook" : "trace") }, thread, panel, number, notes),
    exercises: exercises(closing),
  };
  place.append(
    h("h1", { class: "unseen" }, () => t("trace")),
    ...Object.values(parts),
  );
  const arrows = (/** @type {KeyboardEvent} */ event) => arrowed(event);
  document.addEventListener("keydown", arrows);
  const ends = [
    effect(() => asked()),
    effect(() => fill(parts.title, titled())),
    effect(() => {
      void state.language.value;
      const trace = isTextbook() ? null : state.trace.value;
      const group = trace && state.chosen();
      const width = steps.value ? headWidth(steps.value) : 0;
      if (!width || (!isTextbook() && !group)) return fill(changes);
      const layer = group ? state.place(group).layer : "";
      return supposing.mount(changes, trace, layer, width);
    }),
    effect(() => kept(lists, () => fill(lists, choices()))),
    effect(() => {
      [thread, panel, number].forEach((node) => (node.hidden = !steps.value));
    }),
    drawn(thread, (all) => chips(all)),
    drawn(panel, (all) => openStep(all, panel)),
    drawn(number, (all) => oneNumber(all)),
    drawn(notes, (all) => [t("trace_hint"), exactness(all)].map((words) => h("p", { class: "note" }, words))),
  ];
  return () => {
    document.removeEventListener("keydown", arrows);
    rest();
    steps.value = null;
    [...ends, ...closing].forEach((end) => end());
  };
}

/** Exercises of what is shown, once they are opened. @param {(() => void)[]} closing what ends them */
function exercises(closing) {
  const body = h("div");
  const node = h(
    "details",
    {
      class: "panel to-do",
      hidden: () => !steps.value,
      ontoggle: async () => {
        const { mount } = await import("../views/exercises.js");
        if (node.open && !body.childNodes.length) closing.push(mount(body, steps, { open, title: subtitle }));
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

/** Whether the worked example is shown: it is chosen, or nothing else is asked for. */
const isTextbook = () => Boolean(state.textbook.value) || (!state.trace.value && !state.asked());

/** Asks for the steps of the chosen head, with what is supposed of it. */
function asked() {
  const [trace, group] = [state.trace.value, state.chosen()];
  const book = isTextbook();
  if (!book && (!trace || !group)) {
    steps.value = null;
    return undefined;
  }
  const { layer, head } = group && !book ? state.place(group) : { layer: "textbook", head: 0 };
  const others = supposing.asked();
  const path = book || !trace ? "/api/v1/textbook?" : `/api/v1/traces/${trace.trace_id}/steps?`;
  let alive = true;
  getJson(path + query(book ? others : { layer, head, ...others })).then(
    (answer) => {
      if (!alive) return;
      steps.value = made.steps(answer, 0);
      document.documentElement.dataset.ready = ["steps", layer, head, ...Object.values(others)].join("/");
    },
    (error) => {
      if (!alive) return;
      steps.value = null;
      state.status.value = error.message;
    },
  );
  return () => {
    alive = false;
  };
}

/** Numbers of a query of this head. @param {Steps} all */
const headWidth = ({ by }) => (by.query ? by.query.shape[1] : 0);

/**
 * Where one is: the locked cell, else the largest weight; a column.
 * @param {Steps} all
 * @param {boolean} [once] not to be followed
 * @returns {made.Place}
 */
function place({ by, queries, keys }, once = false) {
  const { weights } = by;
  const [q, k, c] = [state.query, state.key, state.column].map((part) => (once ? part.peek() : part.value));
  let cell = { q, k };
  if (cell.q < 0 || cell.k < 0) {
    const first =
      weights && !isTextbook() ? strongest(weights, by.masked, cell.q) : { q: 0, k: Math.min(1, keys.length - 1) };
    cell = { q: cell.q < 0 ? first.q : cell.q, k: cell.k < 0 ? first.k : cell.k };
  }
  const [rows, columns] = weights ? weights.shape : [queries.length, keys.length];
  return { q: Math.min(cell.q, rows - 1), k: Math.min(cell.k, columns - 1), c: Math.max(0, c) };
}

/**
 * The cell on which a head opens, or the largest weight of a row.
 * @param {Step} weights
 * @param {Step | undefined} masked
 * @param {number} row
 */
function strongest({ values }, masked, row) {
  const [trace, group] = [state.trace.value, state.chosen()];
  if (row >= 0 && row < values.length) return { q: row, k: values[row].indexOf(Math.max(...values[row])) };
  if (!trace || !group) return { q: 0, k: 0 };
  const flat = Float32Array.from(values.flat());
  const each = (/** @type {number} */ length) => Array.from({ length }, (_, at) => [at]);
  const marked = masked ? flat.map((one, at) => (masked.values.flat()[at] > -Infinity ? one : -Infinity)) : flat;
  const head = { weights: flat, marked, rows: each(values.length), columns: each(values[0].length) };
  return largestCell(head, trace, group);
}

/**
 * The labels along an axis: tokens, or numbers from 1.
 * @param {Steps} all
 * @param {string} axis
 * @param {number} length
 */
function labels({ queries, keys }, axis, length) {
  const known = axis === "queries" ? queries : axis === "keys" ? keys : [];
  return Array.from({ length }, (_, at) => known[at] ?? String(at + 1));
}

/** The pair in words, what it is of, and the way to the worked example. */
function titled() {
  const all = steps.value;
  if (!all) return [h("p", {}, state.status.value || t("loading")), sources()];
  const { q, k } = place(all);
  const word = (/** @type {string} */ name, /** @type {string} */ label) =>
    h("bdi", { class: KINDS[name] }, cut(label, LETTERS));
  const sentence = phrase("attends", word("query", all.queries[q]), word("key", all.keys[k]));
  const run = state.trace.value || state.asked();
  return [
    h("div", {}, h("h2", {}, sentence), h("p", { class: "note", title: subtitle() }, subtitle())),
    run ? sources() : h("p", { class: "note" }, t("type_own")),
  ];
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
  return `${headTitle(group, at, head)} · ${trace.source}${trace.output ? ` → ${trace.output}` : ""}`;
}

/** The lists from which head and pair are chosen. */
function choices() {
  const all = steps.value;
  const [trace, group] = [state.trace.value, state.chosen()];
  if (!all) return trace && group && !isTextbook() ? [picker(trace, group)] : [];
  const { q, k } = place(all);
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
    trace && group && !isTextbook() ? picker(trace, group) : null,
    h(
      "div",
      { class: "tabs" },
      list("query_token", labels(all, "queries", rows), q, "q"),
      list("key_token", labels(all, "keys", columns), k, "k"),
    ),
  ];
}

/**
 * Follows the steps; what has the focus keeps it.
 * @param {HTMLElement} node
 * @param {(all: Steps) => any[]} work
 */
const drawn = (node, work) =>
  effect(() => {
    const all = steps.value;
    void [state.language.value, state.dark.value];
    kept(node, () => fill(node, all ? work(all) : []));
  });

/** The link that is open, and its place. @param {Steps} all @param {made.Place} now */
function opened(all, now) {
  const links = made.thread(all, now);
  const at = openAt(links);
  return { links, at, link: links[at] };
}

/** The thread. @param {Steps} all */
function chips(all) {
  const now = place(all);
  const { links, at } = opened(all, now);
  return links.map((one, number) => chip(all, one, number, number === at, now));
}

/** The matrices of the open step; they follow the place by themselves. @param {Steps} all @param {HTMLElement} panel */
function openStep(all, panel) {
  const { links, at, link } = opened(all, place(all, true));
  // weighted values are those of one query
  const now = place(all, link.id !== "mix");
  panel.setAttribute("aria-label", title(all, link));
  return [
    h("div", { class: "row-of lead" }, h("p", {}, lead(all, link, now)), tools(all, link, at, links.length)),
    h("div", { class: "matrices" }, matrices(all, link, now)),
  ];
}

/** One number by hand. @param {Steps} all */
function oneNumber(all) {
  const now = place(all);
  const { link } = opened(all, now);
  if (!link.steps.length) return unchanged(all, link, now);
  // of what a link shows in another way, the number is that of the output
  const step = link.id === "mix" ? all.by.output : made.chosenStep(link, state.matrix.value);
  const [row, column] = made.cellOf(step, now);
  return worked({ steps: all, step, row, column, k: now.k, choose: choosePlace });
}

/** @param {Steps} all */
function exactness({ difference, by }) {
  const exact = by.output && by.output.working && by.output.working.rule === "mix";
  return exact ? t(difference < 1e-5 ? "exact" : "inexact", significant(difference, 2)) : t("as_recorded");
}

/** The number of a link that changes nothing. @param {Steps} all @param {Link} link @param {made.Place} now */
function unchanged(all, link, now) {
  const [row, column] = made.cellOf(link.before[0], now);
  const words = t(`${link.id}_none`, short(link.before[0].values[row][column]));
  return [h("div", { class: "formula" }, h("span", { class: "number" }, words))];
}

/** The place of the open link. @param {Link[]} links */
function openAt(links) {
  const at = links.findIndex(({ id }) => id === state.link.value);
  if (at >= 0) return at;
  return Math.max(
    0,
    links.findIndex(({ id }) => id === "score" || id === "features"),
  );
}

/** What a link is called. @param {Steps} all @param {Link} link */
function title({ by }, link) {
  const [step] = link.steps;
  if (link.id === "weights" && step.working && step.working.rule === "normalizer")
    return step.working.numbers.name
      .replace(/_/g, " ")
      .replace(/^./, (/** @type {string} */ first) => first.toUpperCase());
  if (link.id === "score" && ruleOf(step) === "dot" && !by["query features"]) return t("link_products");
  return t(`link_${link.id}`) === `link_${link.id}` ? link.id : t(`link_${link.id}`);
}

/** The number of a link in the thread. @param {Steps} all @param {Link} link @param {made.Place} now */
function valueOf(all, link, now) {
  const { by } = all;
  if (link.id === "input") return t("count_numbers", by.input.shape[1]);
  if (["project", "norm", "turn", "features"].includes(link.id))
    return link.steps.map(({ shape }) => shape[1]).join(" + ");
  if (!link.steps.length) return t(link.id === "scale" ? "off" : "nothing");
  const step = link.id === "mix" ? null : made.chosenStep(link, "");
  if (!step) return `${weight(by[/** @type {any} */ (by.output.working).of[0]].values[now.q][now.k])} · v`;
  const [row, column] = made.cellOf(step, now);
  const value = step.values[row][column];
  if (!["weights", "changed"].includes(link.id) || value < 0 || value > 1) return short(value);
  return value === 0 || value === 1 ? `${100 * value} %` : percent(value, 1);
}

/** @param {Steps} all @param {Link} link @param {number} number @param {boolean} on @param {made.Place} now */
const chip = (all, link, number, on, now) =>
  h(
    "button",
    {
      role: "tab",
      "aria-selected": String(on),
      "aria-controls": on ? "open-step" : null,
      tabindex: on ? 0 : -1,
      "data-at": on ? "thread" : null,
      onclick: () => open(link.id),
    },
    h("span", { class: "name" }, `${number + 1} ${title(all, link)}`),
    h("span", { class: "value" }, valueOf(all, link, now)),
  );

/** What happens in a step, in words. @param {Steps} all @param {Link} link @param {made.Place} now */
function lead(all, link, now) {
  const [step] = link.steps.slice(-1);
  const width = headWidth(all);
  const values = [all.queries[now.q], width, significant(Math.sqrt(width)), all.keys[now.k]];
  const kind = link.id === "weights" && step.working ? /** @type {any} */ (step.working).numbers.name : "";
  const names = [
    step ? `lead_${link.id}_${kind ? kind.split(":")[0] : ruleOf(step)}` : `lead_${link.id}_none`,
    `lead_${link.id}`,
  ];
  const name = names.find((one) => t(one) !== one);
  if (name) return t(name, ...values.map((value) => cut(String(value), LETTERS)));
  return [step.text, formula(step.formula)];
}

/** @param {Step} step */
const ruleOf = ({ working }) => (!working ? "" : working.numbers.slope === undefined ? working.rule : "leaky");

/** Whether a step has more columns than are read at once. @param {Step} step */
const isWide = (step) => step.shape[1] > (made.ofPairs(step) ? SQUARE : NARROW);

/** Back, play, next; all numbers. @param {Steps} all @param {Link} link @param {number} at @param {number} count */
function tools(all, link, at, count) {
  const wide = [...link.before, ...link.steps].filter(isWide);
  const columns = Math.max(0, ...wide.map(({ shape }) => shape[1]));
  const every = Boolean(state.numbers.value);
  const button = (/** @type {string} */ name, /** @type {string} */ words, /** @type {() => void} */ work, more = {}) =>
    h("button", { "data-at": name, onclick: work, ...more }, words);
  return toolbar(
    () => t("thread"),
    "controls",
    columns
      ? button(
          "numbers",
          every ? t("colours_only") : t("all_numbers", columns),
          () => (state.numbers.value = every ? "" : "1"),
          { "aria-pressed": String(every) },
        )
      : null,
    button("back", `← ${t("step_back")}`, () => step(-1), { "aria-disabled": at === 0 ? "true" : null }),
    button("play", playing.value ? t("pause") : `▶ ${t("play")}`, play, { class: "main" }),
    button("forward", `${t("step_on")} →`, () => step(1), { "aria-disabled": at === count - 1 ? "true" : null }),
  );
}

/** The matrices of a link, with signs between them. @param {Steps} all @param {Link} link @param {made.Place} now */
function matrices(all, link, now) {
  const sign = (/** @type {string} */ text) => h("span", { class: "sign", "aria-hidden": "true" }, text);
  const drawn = (/** @type {Step[]} */ some, /** @type {boolean} */ own) =>
    some.map((step) => drawMatrix(all, link, step, now, own));
  const [before, after] = [drawn(link.before, false), drawn(link.steps, true)];
  const stacked = (/** @type {HTMLElement[]} */ nodes) =>
    nodes.length > 1 ? h("div", { class: "stacked" }, nodes) : nodes;
  if (!before.length) return after.length > 3 ? stacked(after) : after;
  if (!after.length) return before;
  const rule = ruleOf(link.steps[link.steps.length - 1]);
  const width = /** @type {any} */ (link.steps[0].working || { numbers: {} }).numbers.divisor;
  const between = /** @type {Record<string, string>} */ ({
    dot: "q·k =",
    quotient: link.id === "scale" ? `÷ √${headWidth(all)}` : `÷ ${significant(width || 1, 3)}`,
    sum: "+",
  })[rule];
  return [stacked(before), sign(between || "→"), stacked(after)].flat();
}

/**
 * `own`: whether the link makes it.
 * @param {Steps} all
 * @param {Link} link
 * @param {Step} step
 * @param {made.Place} now
 * @param {boolean} own
 */
function drawMatrix(all, link, step, now, own) {
  const { axes, shape, name } = step;
  const pairs = made.ofPairs(step);
  const rows = labels(all, axes[0], shape[0]);
  const weighted = link.id === "mix" && own;
  const of = weighted ? all.by[/** @type {any} */ (all.by.output.working).of[0]] : null;
  const marks = () => {
    const here = own && (link.steps.length === 1 || step === made.chosenStep(link, state.matrix.value));
    return { at: made.cellOf(step, place(all)), on: pairs || here || link.id === "mix", down: weighted };
  };
  const family = name.split(" ").pop() || "";
  const text = t(`what_${name}`) === `what_${name}` ? step.text : t(`what_${name}`, all.queries[now.q]);
  const choose = (/** @type {number} */ i, /** @type {number} */ j) => {
    // a number of another step is worked where it is made
    const elsewhere = !own && !pairs ? made.linkOf(step) : "";
    batch(() => {
      choosePlace(made.placeOf(step, i, j));
      if (own) state.matrix.value = name;
      if (elsewhere && link.id !== "mix") open(elsewhere, name);
    });
  };
  return matrix({
    name,
    symbol: step.symbol,
    kind: KINDS[family],
    text,
    values: step.values,
    rows: of ? rows.map((word, at) => `${weight(of.values[now.q][at])}\u00a0${word}`) : rows,
    columns: axes[1] === "queries" || axes[1] === "keys" ? labels(all, axes[1], shape[1]) : null,
    places: placesOf(step.values),
    marks,
    share: /weights$/.test(name),
    bare: isWide(step) && !state.numbers.value,
    pick: choose,
    move: own || pairs ? undefined : (i, j) => choosePlace(made.placeOf(step, i, j)),
  });
}

/** Another pair, or column. @param {Partial<made.Place>} next */
function choosePlace(next) {
  const all = steps.peek();
  if (!all) return;
  const now = { ...place(all), ...next };
  state.instead(() =>
    batch(() => {
      [state.query.value, state.key.value, state.column.value] = [now.q, now.k, now.c];
    }),
  );
}

/** Opens a step, and in it a matrix. @param {string} id @param {string} [of] */
function open(id, of = "") {
  batch(() => {
    state.link.value = id;
    state.matrix.value = of;
  });
}

/** So many steps on; the first or the last where it is infinite. @param {number} by */
function step(by) {
  const all = steps.peek();
  if (!all) return false;
  const links = made.thread(all, place(all));
  const [at, last] = [openAt(links), links.length - 1];
  const next = Math.max(0, Math.min(last, at + by));
  if (next !== at) open(links[next].id);
  return next !== at;
}

/** Plays from step to step, or rests. */
function play() {
  if (playing.peek()) return rest();
  const all = steps.peek();
  const links = all ? made.thread(all, place(all)) : [];
  if (openAt(links) === links.length - 1) open(links[0].id);
  playing.value = setInterval(() => {
    if (!step(1)) rest();
  }, PLAY_MS);
}

function rest() {
  clearInterval(playing.peek());
  playing.value = 0;
}

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
 * @param {HTMLElement} place
 * @param {() => void} draw
 */
function kept(place, draw) {
  const focus = /** @type {HTMLElement | null} */ (document.activeElement);
  const at = focus && place.contains(focus) ? focus.dataset.at : undefined;
  const before = new Map(scrolled(place).map((one) => [one.dataset.of, [one.scrollTop, one.scrollLeft]]));
  draw();
  for (const one of scrolled(place)) {
    const was = before.get(one.dataset.of);
    if (was) [one.scrollTop, one.scrollLeft] = was;
    reveal(one);
  }
  const chip = /** @type {HTMLElement | null} */ (place.querySelector("[role=tab][aria-selected=true]"));
  if (chip) place.scrollLeft = chip.offsetLeft - place.offsetLeft - (place.clientWidth - chip.offsetWidth) / 2;
  if (!at) return;
  const next = /** @type {HTMLElement | null} */ (place.querySelector(`[data-at="${CSS.escape(at)}"]`));
  if (next) next.focus({ preventScroll: true });
}

/** What holds a matrix that may be larger than its place. @param {HTMLElement} place */
const scrolled = (place) => /** @type {HTMLElement[]} */ ([...place.querySelectorAll(".scrolls[data-of]")]);
