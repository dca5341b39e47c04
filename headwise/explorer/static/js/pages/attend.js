// @ts-check
/** All heads as small pictures, one of them large: as a map, as links, over the text; all in a table. */

import { getJson, getNumbers, query } from "../api.js";
import { fill, h } from "../dom.js";
import { inside } from "../inside.js";
import { extend, reset } from "../keys.js";
import { effect, signal } from "../store.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { groupTitle } from "../titles.js";
import { answer } from "../views/answer.js";
import * as editing from "../views/edit.js";
import * as examples from "../views/examples.js";
import * as folding from "../views/folding.js";
import * as headGrid from "../views/head_grid.js";
import * as heat from "../views/heat.js";
import { head, move } from "../views/map_keys.js";
import * as reading from "../views/reading.js";
import * as saving from "../views/saving.js";
import { largestCell } from "../views/largest.js";
import { foldedBy, rolled, seen } from "../views/seen.js";
import { heard } from "../views/sound.js";
import { refill, toolbar } from "../views/toolbar.js";
import { WORDS } from "../words/attend.js";

learn(WORDS);

/** The map is there at once, the rest when it is asked for. @type {Record<string, () => Promise<any> | any>} */
const LARGE = {
  heat: () => heat,
  links: () => import("../views/links.js"),
  text: () => import("../views/text.js"),
};
const pictures = async () => import("../views/pictures.js");
const LAYERS = 64;

/** What the window has room for; it changes with the window. */
const screen = signal("");

/** @param {HTMLElement} place @returns {() => void} */
export function mount(place) {
  const small = h("section", { class: "panel", "aria-label": () => t("heads") });
  const large = h("section", { class: "panel wide" });
  const read = h("section", { class: "panel read" });
  const [tabs, given, answerLine] = [toolbar(() => t("attend"), "tabs"), h("div"), h("div", { class: "answer-line" })];
  const shown = h("div", { class: "attend" }, small, large, read);
  const edits = h("section", { class: "panel whole", "aria-label": () => t("edit") });
  const empty = h("p", { hidden: () => Boolean(state.trace.value) }, () => t("empty"));
  place.append(
    h("h1", { class: "unseen" }, () => t("attend")),
    given,
    empty,
    answerLine,
    tabs,
    shown,
    inside() ? "" : edits,
  );
  extend({ head, move });
  const resized = () => (screen.value = `${innerWidth} ${innerHeight}`);
  resized();
  addEventListener("resize", resized);
  const ends = [
    // a page that was saved has nobody to ask
    inside() ? () => {} : editing.mount(edits),
    effect(() => {
      fill(given);
      // what is not typed is chosen from a list
      return ["", "text"].includes(state.reads()) ? undefined : examples.mount(given);
    }),
    drawn(answerLine, (trace, group) => {
      void [screen.value, state.language.value];
      fill(answerLine, answer(trace, group));
    }),
    effect(() => refill(tabs, groups(), views(), stages())),
    drawn(small, (trace, group, node, alive) => thumbs(trace, group, node, alive)),
    drawn(large, (trace, group, node, alive) => chosen(trace, group, node, read, alive)),
  ];
  return () => {
    removeEventListener("resize", resized);
    reset();
    state.strongest.value = null;
    ends.forEach((end) => end());
  };
}

/**
 * Buttons of which one is pressed.
 * @param {[string, boolean, () => void][]} items what stands on each, whether it is pressed, what a press does
 */
const pick = (items) =>
  h(
    "span",
    { class: "seg" },
    items.map(([words, on, press]) =>
      h("button", { class: on ? "tab chosen" : "tab", "aria-pressed": String(on), onclick: press }, words),
    ),
  );

/** Which groups of layers there are. */
function groups() {
  const trace = state.trace.value;
  const now = state.chosen();
  return trace ? pick(trace.groups.map((one) => [groupTitle(one), now === one, () => state.inGroup(one.name)])) : null;
}

/** The ways to look. */
const views = () =>
  pick(state.VIEWS.map((name) => [t(name), state.view.value === name, () => (state.view.value = name)]));

/** What a map holds; a page that was saved holds weights alone. */
function stages() {
  const group = state.chosen();
  if (inside() || !group || rolled(group)) return null;
  const now = state.view.value === "heat" ? state.stage.value : "";
  return pick(["", "scores"].map((name) => [t(`stage_${name || "weights"}`), now === name, () => state.ofStage(name)]));
}

/**
 * Follows the trace and its group; what was drawn before is taken away first.
 * @param {HTMLElement} node
 * @param {(trace: state.Trace, group: state.Group, node: HTMLElement, alive: () => boolean) => void | (() => void)}
 * work
 */
function drawn(node, work) {
  return effect(() => {
    const [trace, group] = [state.trace.value, state.chosen()];
    fill(node);
    node.hidden = !trace || !group;
    if (!trace || !group) return undefined;
    let alive = true;
    const end = work(trace, group, node, () => alive);
    return () => {
      alive = false;
      if (end) end();
    };
  });
}

/** @param {state.Trace} trace @param {state.Group} group @param {HTMLElement} node @param {() => boolean} alive */
function thumbs(trace, group, node, alive) {
  const asked = query({ group: group.name, count: LAYERS, size: 32, ...foldedBy(trace, group) });
  const dark = state.dark.value;
  void screen.value;
  fill(
    node,
    h(
      "div",
      { class: "heading" },
      h("h2", {}, t("heads")),
      h("span", { class: "side", title: t("each_own_scale") }, t("rows_columns")),
    ),
  );
  const side = headGrid.sideOf(node, group);
  // the map is measured before the pictures come
  const grid = h("div", { class: "heads-of-all" });
  grid.style.setProperty("--height", `${headGrid.heightOf(group, side)}px`);
  const tools = () => [
    headGrid.rollout(group),
    folding.switches(trace, group),
    inside() ? null : saving.trace(trace, group),
  ];
  const more = toolbar(() => t("save"), "more", tools());
  node.append(grid, more);
  getNumbers(`/api/v1/traces/${trace.trace_id}/thumbs?${asked}`).then((found) => {
    if (!alive()) return;
    headGrid.mount(grid, group, found, dark, side);
    refill(
      more,
      tools(),
      h(
        "span",
        { class: "saving" },
        saving.buttons(`heads ${group.name}`, async () => (await pictures()).heads(group, found)),
      ),
    );
  }, failed);
}

/**
 * @param {state.Trace} trace
 * @param {state.Group} group
 * @param {HTMLElement} node
 * @param {HTMLElement} read where the chosen cell is read
 * @param {() => boolean} alive
 */
function chosen(trace, group, node, read, alive) {
  const view = state.view.value;
  const at = `/api/v1/traces/${trace.trace_id}`;
  read.hidden = !(view in LARGE);
  // what is written later has the words of the language
  void [screen.value, state.language.value];
  // it shows all heads, whichever is chosen
  if (read.hidden) state.strongest.value = null;
  let end = () => {};
  if (view === "needs") {
    import("../views/needs.js").then((needs) => {
      if (alive()) end = needs.mount(node, trace, group, alive);
    });
    return () => end();
  }
  if (view === "table") {
    const summary = getJson(`${at}/summary?${query({ group: group.name, ...foldedBy(trace, group) })}`);
    Promise.all([import("../views/head_table.js"), summary]).then(([table, found]) => {
      if (!alive()) return;
      end = table.mount(node, group, found);
      node.append(saving.picture(`table ${group.name}`, async () => (await pictures()).table(group, found)));
      document.documentElement.dataset.ready = `${group.name}/table`;
    }, failed);
    return () => end();
  }
  Promise.all([LARGE[view](), seen(trace, group), view === "heat" ? heard(trace, group) : null]).then(
    ([large, found, beside]) => {
      if (!alive()) return;
      state.strongest.value = largestCell(found, trace, group);
      const shown = {
        ...found,
        weights: view === "heat" ? found.raw || found.marked : found.weights,
        scores: Boolean(found.raw),
        beside,
        fitsScreen: true,
      };
      node.append(
        h(
          "div",
          { class: "heading" },
          h("h2", { title: found.path }, found.title),
          saving.picture(`${view} ${found.title}`, async () => /** @type {any} */ (await pictures())[view](shown)),
        ),
      );
      if (found.note) node.append(h("p", { class: "legend folded" }, found.note));
      fill(read);
      const ends = [large.mount(node, shown), reading.mount(read, found, trace, group)];
      end = () => ends.forEach((one) => one());
      document.documentElement.dataset.ready = `${group.name}/${found.name}/${view}`;
    },
    failed,
  );
  return () => end();
}

/** @param {Error} error */
function failed(error) {
  state.status.value = error.message;
}
