// @ts-check
/** The heads of all layers as small pictures beside the map, and what saves and shows them. */

import { getNumbers, query } from "../api.js";
import { fill, h } from "../dom.js";
import { inside } from "../inside.js";
import { effect } from "../store.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { sideOf } from "./grid.js";
import * as headGrid from "./head_grid.js";
import { rested } from "./later.js";
import * as saving from "./saving.js";
import { foldable, foldedBy } from "./seen.js";
import { refill, toolbar } from "./toolbar.js";

const LAYERS = 64;
/** Pixels of a screen on which the map comes before what saves it. */
const NARROW = 760;

/**
 * @param {HTMLElement} node @param {state.Trace} trace @param {state.Group} group
 * @param {{ value: string }} screen what the window has room for
 */
export function mount(node, trace, group, screen) {
  return effect(() => {
    void screen.value;
    let alive = true;
    const end = draw(node, trace, group, () => alive);
    return () => {
      alive = false;
      end?.();
    };
  });
}

/** @param {HTMLElement} node @param {state.Trace} trace @param {state.Group} group @param {() => boolean} alive */
function draw(node, trace, group, alive) {
  const asked = query({ group: group.name, count: LAYERS, size: 32, ...foldedBy(trace, group) });
  const dark = state.dark.value;
  const line = h("span", { class: "side", title: t("each_own_scale") }, t("rows_columns"));
  fill(node, h("div", { class: "heading" }, h("h2", {}, t("heads")), line));
  const side = sideOf(node, group);
  // the map is measured before the pictures come
  const grid = h("div", { class: "heads-of-all" });
  grid.style.setProperty("--height", `${headGrid.heightOf(group, side)}px`);
  const tools = () => [headGrid.rollout(group), switches(trace, group), inside() ? null : saving.trace(trace, group)];
  const more = toolbar(() => t("save"), "more", tools());
  node.append(
    grid,
    // a grid of many heads needs the room for its map; its title says it there
    ...(group.layers.length * group.heads > 64 ? [] : [h("p", { class: "legend" }, t("own_scale"))]),
    innerWidth > NARROW
      ? more
      : h(
          "details",
          {},
          h("summary", { class: "side" }, t(foldable(trace, group).special ? "save_and_show" : "save")),
          more,
        ),
  );
  if (group.long) {
    headGrid.mountEmpty(grid, group, dark, side);
    return longThumbs(grid, line, (here) => headGrid.fillLong(grid, trace, group, dark, line, () => here() && alive()));
  }
  getNumbers(`/api/v1/traces/${trace.trace_id}/thumbs?${asked}`).then((found) => {
    if (!alive()) return;
    headGrid.mount(grid, group, found, dark, side);
    const all = saving.buttons(`heads ${group.name}`, async () => (await import("./pictures.js")).heads(group, found));
    // these are of attention, not of a method
    refill(more, tools(), h("span", { class: "saving", hidden: () => Boolean(state.method()) }, all));
  }, state.failed);
}

/**
 * The pictures of a long input, each of which needs all weights of its head: beside the map, which has needed them, or
 * on request.
 * @param {HTMLElement} grid @param {HTMLElement} line @param {(here: () => boolean) => Promise<void>} work
 */
function longThumbs(grid, line, work) {
  let [begun, gone] = [false, false];
  const begin = () => {
    if (begun) return;
    begun = true;
    ask.remove();
    work(() => !gone).catch(state.failed);
  };
  const ask = h("button", { class: "small ask", onclick: begin }, t("heads_ask"));
  grid.after(ask);
  const stop = effect(() => {
    // the map comes first
    if (state.view.value === "heat") rested().then(() => !gone && state.view.peek() === "heat" && begin());
  });
  return () => {
    gone = true;
    stop();
  };
}

/**
 * Switches that a group has: words for sub-words; special tokens shown, hidden, or hidden and shared.
 * @param {state.Trace} trace @param {state.Group} group
 */
function switches(trace, group) {
  const can = foldable(trace, group);
  const words = () =>
    h(
      "button",
      {
        class: () => (state.merged.value ? "tab chosen" : "tab"),
        "aria-pressed": () => String(state.merged.value !== ""),
        onclick: () => state.mergedNext(),
        title: () => t("merged_note"),
      },
      () => t("merge"),
    );
  const special = () =>
    h(
      "button",
      { class: () => (state.special.value ? "tab chosen" : "tab"), onclick: () => state.specialNext() },
      () => `${t("special")}: ${t(`special_${state.special.value || "show"}`)}`,
    );
  return h("span", { class: "views" }, can.merged ? words() : null, can.special ? special() : null);
}
