// @ts-check
/** All heads as small pictures, one of them large: as a map, as links, over the text; all in a table. */

import { getJson, query } from "../api.js";
import { LARGEST } from "../core/fit.js";
import { fill, h } from "../dom.js";
import { inside } from "../inside.js";
import { extend, reset } from "../keys.js";
import { effect, signal } from "../store.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { brief, groupTitle } from "../titles.js";
import { answer } from "../views/answer.js";
import { METHODS, choice } from "../views/methods.js";
import { nothing, others } from "../views/nothing.js";
import * as saving from "../views/saving.js";
import { seamOf, spelled } from "../views/spelled.js";
import { later, rested } from "../views/later.js";
import { foldedBy, rolled, seen } from "../views/seen.js";
import { refill, toolbar } from "../views/toolbar.js";
import { WORDS } from "../words/attend.js";

learn(WORDS);

/** Loaded when it is asked for. @type {Record<string, () => Promise<any>>} */
const LARGE = {
  heat: () => import("../views/heat.js"),
  links: () => import("../views/links.js"),
  text: () => import("../views/text.js"),
};
const thumbs = async () => import("../views/thumbs.js");
const pictures = async () => import("../views/pictures.js");
/** Pixels of a screen on which titles are short. */
const NARROW = 760;
/** Pixels around the cells of a map, about. */
const FRAMED = 150;

/** Milliseconds after which a window has its size. */
const SETTLED = 120;

/** What the window has room for; it changes with the window. What is read as text follows its width alone. */
const [screen, across] = [signal(""), signal(0)];

/** @param {HTMLElement} place */
export function mount(place) {
  const small = h("section", { class: "panel", "aria-label": () => t("heads") });
  const large = h("section", { class: "panel wide" });
  const read = h("section", { class: "panel read" });
  const [tabs, given, answerLine] = [toolbar(() => t("attend"), "tabs"), h("div"), h("div", { class: "answer-line" })];
  const [find, edits] = [
    h("section", { class: "panel find", "aria-label": () => t("find") }),
    h("section", { class: "panel whole", "aria-label": () => t("edit") }),
  ];
  const shown = h("div", { class: "attend" }, small, large, read, find, inside() ? "" : edits);
  const offered = h("div");
  place.append(
    h("h1", { class: "unseen" }, () => t("attend")),
    nothing(),
    given,
    offered,
    answerLine,
    tabs,
    shown,
  );
  let mounted = true;
  // what shows the weights is loaded while they are made
  if (state.asked()) [thumbs, LARGE[state.view.peek()]].forEach((load) => load?.().catch(() => {}));
  const keyed = effect(() => {
    if (state.trace.value) import("../views/map_keys.js").then((keys) => mounted && extend(keys));
  });
  const measure = () => {
    screen.value = `${innerWidth} ${innerHeight}`;
    across.value = innerWidth;
  };
  measure();
  let settling = 0;
  // a window that is being drawn larger is not drawn for every step
  const resized = () => {
    clearTimeout(settling);
    settling = setTimeout(measure, SETTLED);
  };
  addEventListener("resize", resized);
  const ends = [
    keyed,
    mapped(),
    others(offered),
    // a page that was saved has nobody to ask
    inside() ? () => {} : edited(edits),
    effect(() => {
      fill(given);
      // what is not typed is chosen from a list
      if (!["", "text"].includes(state.reads())) return later(() => import("../views/examples.js"), given);
      if (state.meta.value?.models.length === 0) document.documentElement.dataset.ready = "none";
      return state.reads() && !state.asked() ? later(() => import("../views/begin.js"), given) : undefined;
    }),
    drawn(answerLine, (trace, group) => {
      void [screen.value, state.language.value];
      fill(answerLine, answer(trace, group));
    }),
    effect(() => {
      void screen.value;
      refill(tabs, ...[groups(), views(), stages()].flat());
    }),
    effect(() => {
      tabs.hidden = !state.trace.value;
      // where nothing can be pointed at, what is edited is told and taken back
      edits.hidden = tabs.hidden || !(state.view.value in LARGE || state.edits.value);
      // what was read of another input does not stay
      if (state.trace.value) return;
      fill(read);
      read.hidden = true;
    }),
    drawn(small, (trace, group, node) => {
      if (ofMethod()) node.hidden = true;
      else return later(thumbs, node, trace, group, screen);
      return undefined;
    }),
    drawn(find, (trace, group, node) => {
      void [state.language.value, foldedBy(trace, group)];
      if (group.long)
        return void fill(node, h("h2", {}, t("find")), h("p", { class: "note" }, tooLarge("long_find", trace, group)));
      return later(() => import("../views/find_head.js"), node, trace, group);
    }),
    drawn(large, (trace, group, node, alive, tall) => {
      // what comes has the room of what was there, so that nothing below it jumps
      node.style.minHeight = `${tall || roomOf(node, group)}px`;
      return chosen(trace, group, node, read, alive);
    }),
  ];
  return () => {
    mounted = false;
    removeEventListener("resize", resized);
    clearTimeout(settling);
    reset();
    state.strongest.value = null;
    ends.forEach((end) => end());
  };
}

/** The panel of edits, once there is something to edit. @param {HTMLElement} place */
function edited(place) {
  let end = () => {};
  const stop = effect(() => {
    if (state.trace.value && !place.childNodes.length)
      end = later(() => rested().then(() => import("../views/edit.js")), place);
  });
  return () => {
    stop();
    end();
  };
}

/**
 * What stands on a button, whether it is pressed, what a press does, and why it is of no use here
 * @typedef {[string, boolean, () => void, string?]} Item
 */

/** Buttons of which one is pressed. @param {Item[]} items */
const pick = (items) =>
  h(
    "span",
    { class: "seg" },
    items.map(([words, on, press, why]) => {
      const look = `tab${on ? " chosen" : ""}${why ? " lacking" : ""}`;
      return h("button", { class: look, "aria-pressed": String(on), onclick: press, title: why || null }, words);
    }),
  );

/** Whether the tokens are nodes of a graph. @param {state.Trace} trace @param {state.Group} group */
const isGraph = (trace, group) => spelled(trace, group).keys.kind === "nodes";

/**
 * What an input is too large for, in words of a graph or of a text.
 * @param {string} words @param {state.Trace} trace @param {state.Group} group @param {...any} values
 */
const tooLarge = (words, trace, group, ...values) =>
  t(`${words}${isGraph(trace, group) ? "_nodes" : ""}`, group.keys.length.toLocaleString("en"), ...values);

/** @param {string} view @param {state.Trace} trace @param {state.Group} group */
const unshown = (view, trace, group) =>
  tooLarge("unshown", trace, group, t(view), (group.keys.length * group.queries.length).toLocaleString("en"));

/**
 * Whether a view has the weights that it needs of an input; of links and text there are those of a row.
 * @param {string} view @param {state.Trace} trace @param {state.Group} group
 */
function showable(view, trace, group) {
  if (view === "heat" || view === "links" || (view === "text" && !isGraph(trace, group))) return true;
  if (view === "table") return group.whole !== false;
  return view === "needs" ? group.compared !== "" : !group.long;
}

/** Whether a page was saved of what counts by a method: it has its maps, and no attention. */
const ofMethod = () => Boolean(inside() && state.by.value);

/** The groups, that in which a trace opens first. @param {state.Group[]} all */
const opening = (all) => {
  const first = state.groupOf(all, "");
  return [first, ...all.filter((one) => one !== first)];
};

/** A title as a narrow screen has room for it. @param {string} title */
const short = (title) => (innerWidth > NARROW ? title : brief(title));

function groups() {
  const trace = state.trace.value;
  const now = state.chosen();
  return trace && trace.groups.length > 1 && !ofMethod()
    ? pick(
        opening(trace.groups).map((one) => [
          short(groupTitle(one, trace.groups)),
          now === one,
          () => state.inGroup(one.name),
        ]),
      )
    : null;
}

function views() {
  const [trace, group] = [state.trace.value, state.chosen()];
  const why = (/** @type {string} */ name) =>
    trace && group && !showable(name, trace, group) ? unshown(name, trace, group) : "";
  const item = (/** @type {string} */ name) =>
    /** @type {Item} */ ([t(name), state.view.value === name, () => (state.view.value = name), why(name)]);
  return !ofMethod() && pick(state.VIEWS.map(item));
}

/** Says why there is a map in place of another view: it alone shows what was asked for. */
function mapped() {
  let before = "heat";
  return effect(() => {
    const [view, of] = [state.view.value, state.by.value ? `by_${state.by.value}` : state.stage.value];
    if (view === "heat" && before !== "heat" && of)
      state.status.value = t("as_map", t(of === "scores" ? "stage_scores" : of));
    before = view;
  });
}

/** What a map holds; a page that was saved holds weights alone. */
function stages() {
  const group = state.chosen();
  // a long input has weights alone, and a table of heads no map
  if (inside() || !group || group.long || !(state.view.value in LARGE) || (rolled(group) && !state.by.value))
    return null;
  const of = (/** @type {string} */ name) => (state.view.value === "heat" ? name : "");
  const [now, by] = [of(state.stage.value), of(state.by.value)];
  return [
    pick(
      ["", "scores"].map((name) => [t(`stage_${name || "weights"}`), !by && now === name, () => state.ofStage(name)]),
    ),
    choice(METHODS, by),
  ];
}

/**
 * Follows the trace and its group; what was drawn before is taken away first.
 * @param {HTMLElement} node
 * @param {(trace: state.Trace, group: state.Group, node: HTMLElement, alive: () => boolean, tall: number) => void |
 * (() => void)} work `tall`: pixels of what was drawn before
 */
function drawn(node, work) {
  return effect(() => {
    const [trace, group] = [state.trace.value, state.chosen()];
    const tall = node.offsetHeight;
    fill(node);
    node.hidden = !trace || !group;
    if (!trace || !group) return undefined;
    let alive = true;
    const end = work(trace, group, node, () => alive, tall);
    return () => {
      alive = false;
      if (end) end();
    };
  });
}

/** About the pixels of a map that is to come. @param {HTMLElement} node @param {state.Group} group */
function roomOf(node, { queries, keys }) {
  const side = Math.min(LARGEST, (node.clientWidth - FRAMED) / keys.length);
  return Math.min(side * queries.length, innerHeight / 2) + FRAMED;
}

/**
 * @param {state.Trace} trace @param {state.Group} group @param {HTMLElement} node
 * @param {HTMLElement} read where the chosen cell is read
 * @param {() => boolean} alive
 */
function chosen(trace, group, node, read, alive) {
  const view = state.view.value;
  const at = `/api/v1/traces/${trace.trace_id}`;
  const [unfit, asText] = [!showable(view, trace, group), view === "links" || view === "text"];
  read.hidden = !(view in LARGE);
  node.parentElement?.classList.toggle("reads", asText || unfit);
  // a map gives its reading what it leaves
  if (view !== "heat" || group.long) node.parentElement?.style.removeProperty("--read");
  // what is written later has the words of the language
  void [asText || unfit ? across.value : screen.value, state.language.value, view === "links" && state.beside.value];
  // it shows all heads, whichever is chosen
  if (read.hidden) state.strongest.value = null;
  let end = () => {};
  const waiting = h("p", { class: "waiting" }, t("loading"));
  node.append(waiting);
  const drawnNow = () => (node.style.minHeight = "");
  const unable = (/** @type {Error} */ error) => {
    if (!alive()) return;
    drawnNow();
    fill(node, h("p", { class: "failed", role: "alert" }, error.message));
    document.documentElement.dataset.ready = `${group.name}/${view}/failed`;
  };
  const coming = (/** @type {Promise<() => void>} */ mounted) => {
    mounted.finally(() => alive() && drawnNow()).then((found) => (alive() ? (end = found) : found()), unable);
    return () => end();
  };
  if (state.method() && !group.long) {
    import("../views/attribution.js").then((attribution) => {
      if (!alive()) return;
      waiting.remove();
      end = attribution.mount(node, read, trace, group);
    });
    return () => end();
  }
  if (unfit || (group.long && asText)) {
    read.hidden = false;
    // what is loaded reads these too late to be drawn again
    void [state.place(group), state.beside.value];
    const why = unfit ? unshown(view, trace, group) : "";
    return coming(import("../views/row_links.js").then((row) => row.mount(node, read, trace, group, alive, why)));
  }
  if (group.long && view === "heat") {
    // what is loaded reads the head too late for another one to draw it again
    void state.place(group);
    return coming(import("../views/long_map.js").then((map) => map.mount(node, read, trace, group, alive)));
  }
  if (view === "needs") {
    import("../views/needs.js").then((needs) => {
      if (!alive()) return;
      waiting.remove();
      drawnNow();
      end = needs.mount(node, trace, group, alive);
    });
    return () => end();
  }
  if (view === "table") {
    const summary = getJson(`${at}/summary?${query({ group: group.name, ...foldedBy(trace, group) })}`);
    Promise.all([import("../views/head_table.js"), summary]).then(([table, found]) => {
      if (!alive()) return;
      waiting.remove();
      drawnNow();
      end = table.mount(node, group, found);
      node.append(saving.picture(`table ${group.name}`, async () => (await pictures()).table(group, found)));
      document.documentElement.dataset.ready = `${group.name}/table`;
    }, unable);
    return () => end();
  }
  const { grid } = /** @type {{ grid?: number[] }} */ (spelled(trace, group).keys);
  const besides = async () => (view === "links" ? (await LARGE.links()).more(trace, group) : null);
  const recording = view === "heat" ? heard(trace, group) : null;
  const views = [LARGE[view](), import("../views/reading.js"), import("../views/opening.js")];
  const parts = [...views, seen(trace, group), recording, besides()];
  Promise.all(/** @type {any[]} */ (parts)).then(([large, reading, opening, found, beside, more]) => {
    if (!alive()) return;
    waiting.remove();
    state.strongest.value = opening.openingCell(found, trace, group);
    const shown = {
      ...found,
      weights: view === "heat" ? found.raw || found.marked : found.weights,
      scores: Boolean(found.raw),
      seam: seamIn(found, trace, group),
      ...beside,
      fitsScreen: true,
      every: grid?.[1],
      ...more,
    };
    const picture = async () => /** @type {any} */ (await pictures())[view](shown);
    node.append(
      h("div", { class: "heading" }, h("h2", { title: found.path }, unbroken(found.title + (more?.withHeads || "")))),
    );
    if (found.note) node.append(h("p", { class: "legend folded" }, found.note));
    const patches = h("div", { class: "patches", hidden: !grid || inside() });
    fill(read, patches);
    const ends = [large.mount(node, shown), reading.mount(read, found, trace, group)];
    if (!patches.hidden) ends.push(later(() => import("../views/patch_place.js"), patches, trace, group, shown));
    end = () => ends.forEach((one) => one());
    // the keyboard comes to the map first
    node.append(saving.picture(`${view} ${found.title}`, picture));
    drawnNow();
    document.documentElement.dataset.ready = `${group.name}/${found.name}/${view}`;
  }, unable);
  return () => end();
}

/** A title whose words with a hyphen stay in one line. @param {string} title */
const unbroken = (title) =>
  title.split(/(\w+-\w+)/).map((part, at) => (at % 2 ? h("span", { class: "unbroken" }, part) : part));

/**
 * Rows before those that the model wrote; 0 for none. @param {{ rows: number[][] }} found @param {state.Trace} trace
 * @param {state.Group} group
 */
function seamIn({ rows }, trace, group) {
  const count = seamOf(group, trace.output);
  return (
    count &&
    Math.max(
      0,
      rows.findIndex((part) => part[part.length - 1] >= count),
    )
  );
}

/**
 * The recording or the series beside a map of times or of steps; null where there is none.
 * @param {state.Trace} trace @param {state.Group} group
 */
async function heard(trace, group) {
  const { queries, keys } = spelled(trace, group);
  if (keys.kind === "steps") return (await import("../views/series.js")).lines(trace, group);
  if (queries.kind !== "frames" && keys.kind !== "frames") return null;
  return (await import("../views/sound.js")).heard(trace, group);
}
