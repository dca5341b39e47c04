// @ts-check
/** All heads as small pictures, one of them large: as a map, as links, over the text; all in a table. */

import { getJson, getNumbers, query } from "../api.js";
import { fill, h } from "../dom.js";
import { inside } from "../inside.js";
import { effect } from "../store.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import * as editing from "../views/edit.js";
import * as examples from "../views/examples.js";
import * as folding from "../views/folding.js";
import * as headGrid from "../views/head_grid.js";
import * as headTable from "../views/head_table.js";
import * as heat from "../views/heat.js";
import * as links from "../views/links.js";
import * as needs from "../views/needs.js";
import * as pictures from "../views/pictures.js";
import * as saving from "../views/saving.js";
import { foldedBy, seen } from "../views/seen.js";
import { heard } from "../views/sound.js";
import * as textView from "../views/text.js";

/** @type {Record<string, { mount: (place: HTMLElement, head: any) => () => void }>} */
const LARGE = { heat, links, text: textView };
/** @type {Record<string, (head: any) => import("../core/picture.js").Picture>} */
const PICTURES = { heat: pictures.heat, links: pictures.links, text: pictures.text };
const LAYERS = 64;

/** @param {HTMLElement} place @returns {() => void} */
export function mount(place) {
  const grid = h("section", { class: "panel", "aria-label": () => t("heads") });
  const large = h("section", { class: "panel wide" });
  const tabs = h("div", { class: "tabs" });
  const edits = h("section", { class: "panel whole", "aria-label": () => t("edit") });
  const given = h("div");
  place.append(h("h1", { class: "unseen" }, () => t("attend")), given, tabs, h("div", { class: "panels" }, grid, large, edits), h("p", { class: "note" }, () => t("note")));
  const none = () => {};
  if (inside()) edits.remove();
  const ends = [
    // a page that was saved has nobody to ask
    inside() ? none : editing.mount(edits),
    effect(() => {
      fill(given);
      // what is not typed is chosen from a list
      return ["", "text"].includes(state.reads()) ? undefined : examples.mount(given);
    }),
    effect(() => fill(tabs, groups(), folds(), views(), saves())),
    drawn(grid, (trace, group, node, alive) => thumbs(trace, group, node, alive)),
    drawn(large, (trace, group, node, alive) => chosen(trace, group, node, alive)),
  ];
  return () => ends.forEach((end) => end());
}

/** Buttons for the groups of layers. */
function groups() {
  const trace = state.trace.value;
  const now = state.chosen();
  return (trace ? trace.groups : []).map((one) =>
    h("button", { class: now === one ? "tab chosen" : "tab", onclick: () => state.inGroup(one.name) }, one.name),
  );
}

/** Buttons for the ways to look. */
function views() {
  const buttons = state.VIEWS.map((name) =>
    h("button", { class: state.view.value === name ? "tab chosen" : "tab", onclick: () => (state.view.value = name) }, t(name)),
  );
  return h("span", { class: "views" }, buttons);
}

/** Switches for sub-words and special tokens, where there are any. */
function folds() {
  const [trace, group] = [state.trace.value, state.chosen()];
  return trace && group ? folding.switches(trace, group) : null;
}

/** Buttons that save everything; a page that was saved has nothing more to give. */
function saves() {
  const [trace, group] = [state.trace.value, state.chosen()];
  return trace && group && !inside() ? saving.trace(trace, group) : null;
}

/**
 * Follows the trace and its group; what was drawn before is taken away first.
 * @param {HTMLElement} node
 * @param {(trace: state.Trace, group: state.Group, node: HTMLElement, alive: () => boolean) => void | (() => void)} work
 */
function drawn(node, work) {
  return effect(() => {
    const [trace, group] = [state.trace.value, state.chosen()];
    fill(node);
    if (!trace || !group) {
      fill(node, h("p", {}, t("empty")));
      return undefined;
    }
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
  getNumbers(`/api/v1/traces/${trace.trace_id}/thumbs?${asked}`).then((found) => {
    if (!alive()) return;
    fill(node, h("h2", {}, t("layers_heads")));
    headGrid.mount(node, group, found, dark);
    node.append(h("p", { class: "legend fits" }, t("each_own_scale")));
    node.append(saving.picture(`heads ${group.name}`, () => pictures.heads(group, found)));
  }, failed);
}

/** @param {state.Trace} trace @param {state.Group} group @param {HTMLElement} node @param {() => boolean} alive */
function chosen(trace, group, node, alive) {
  const view = state.view.value;
  const at = `/api/v1/traces/${trace.trace_id}`;
  // it shows all heads, whichever is chosen
  if (view === "needs") return needs.mount(node, trace, group, alive);
  let end = () => {};
  if (view === "table") {
    getJson(`${at}/summary?${query({ group: group.name, ...foldedBy(trace, group) })}`).then((found) => {
      if (!alive()) return;
      end = headTable.mount(node, group, found);
      node.append(saving.picture(`table ${group.name}`, () => pictures.table(group, found)));
      document.documentElement.dataset.ready = `${group.name}/table`;
    }, failed);
    return () => end();
  }
  Promise.all([seen(trace, group), view === "heat" ? heard(trace, group) : null]).then(([found, beside]) => {
    if (!alive()) return;
    node.append(h("h2", {}, found.title));
    if (found.note) node.append(h("p", { class: "legend folded" }, found.note));
    const shown = { ...found, weights: view === "heat" ? found.marked : found.weights, beside };
    end = LARGE[view].mount(node, shown);
    node.append(saving.picture(`${view} ${found.title}`, () => PICTURES[view](shown)));
    document.documentElement.dataset.ready = `${group.name}/${found.name}/${view}`;
  }, failed);
  return () => end();
}

/** @param {Error} error */
function failed(error) {
  state.status.value = error.message;
}
