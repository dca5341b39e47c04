// @ts-check
/** Every head of a group as a small picture, layer by layer; one is chosen. */

import { h } from "../dom.js";
import { painted } from "../core/heatmap.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { headTitle, layerNumber } from "../titles.js";
import { rolled, rolls } from "./seen.js";

/**
 * Pixels of a picture, on a wide and on a narrow screen and at least, and around each; of the names of rows and the
 * padding of a panel; below all of them.
 */
const [LARGEST, SMALLER, LEAST, GAP, MARGIN, BELOW] = [54, 36, 14, 5, 50, 100];
/** Pixels of all pictures of a row, beside a map; a screen that is narrower shows the map below. */
const [BESIDE, NARROW] = [392, 760];

/**
 * How large pictures are, so that the map stands beside all of them; a panel becomes as wide as they need.
 * @param {HTMLElement} panel
 * @param {state.Group} group
 */
export function sideOf(panel, { layers, heads }) {
  const narrow = innerWidth <= NARROW;
  const across = narrow ? (panel.clientWidth - MARGIN) / heads : BESIDE / heads;
  const down = narrow ? Infinity : (innerHeight - panel.getBoundingClientRect().top - scrollY - BELOW) / layers.length;
  const side = Math.max(LEAST, Math.floor(Math.min(narrow ? SMALLER : LARGEST, across - GAP, down - GAP)));
  /** @type {HTMLElement} */ (panel.parentElement).style.setProperty(
    "--heads",
    `${Math.max(272, heads * (side + GAP) + MARGIN)}px`,
  );
  return side;
}

/**
 * Pixels of the pictures of all layers, and of the numbers above them.
 * @param {state.Group} group
 * @param {number} side
 */
export const heightOf = ({ layers }, side) => layers.length * (side + GAP) + 20;

/**
 * @param {HTMLElement} place @param {state.Group} group @param {import("../core/npy.js").Numbers} thumbs
 * @param {boolean} dark @param {number} [side] pixels of a picture
 */
export function mount(place, group, thumbs, dark, side = 40) {
  const [, heads, rows, columns] = thumbs.shape;
  const picture = (/** @type {number} */ layer, /** @type {number} */ head) => {
    const at = (layer * heads + head) * rows * columns;
    const entries = Int16Array.from(thumbs.data.subarray(at, at + rows * columns));
    const canvas = painted(entries, rows, columns, dark ? "ink dark" : "ink light");
    canvas.className = "thumb";
    return canvas;
  };
  const grid = gridOf(group, {
    side,
    columns: Array.from({ length: heads }, (_, head) => ({ head, name: String(head + 1) })),
    picture,
    title: (layer, head) => headTitle(group, layer, head),
    now: () => ({ layer: state.place(group).at, head: rolled(group) ? -1 : state.place(group).head }),
    choose: (layer, head) => {
      state.layer.value = layer;
      state.head.value = head;
    },
  });
  place.append(grid);
  // of a grid that is higher than its room the chosen layer is seen
  grid.scrollTop = Math.max(0, (state.place(group).at - 1) * (side + GAP));
}

/**
 * Pictures in rows of layers, one stop of the tabulator, between which the arrows go.
 * @param {state.Group} group
 * @param {{ side: number, columns: { head: number, name: string }[], picture: (layer: number, head: number) =>
 * HTMLElement, title: (layer: number, head: number) => string, now: () => { layer: number, head: number }, choose:
 * (layer: number, head: number) => void }} how
 * @returns {HTMLElement}
 */
export function gridOf(group, { side, columns, picture, title, now, choose }) {
  /** @type {HTMLElement[]} */
  const buttons = [];
  const names = columns.map(({ name }) => h("span", {}, name));
  const grid = h(
    "div",
    { class: "grid", role: "grid", "aria-label": t("heads") },
    h("div", { class: "gridrow numbers-of-heads", "aria-hidden": "true" }, h("span", { class: "name" }), names),
  );
  grid.style.setProperty("--side", `${side}px`);
  const stops = () => columns.some(({ head }) => head === now().head);
  group.layers.forEach((path, layer) => {
    const cells = columns.map(({ head }, at) => {
      const is = () => now().layer === layer && now().head === head;
      // where another thing than a head is chosen, the first of its layer is the stop
      const stop = () => is() || (!stops() && at === 0 && now().layer === layer);
      return h(
        "button",
        {
          class: () => (is() ? "cell chosen" : "cell"),
          role: "gridcell",
          title: `${title(layer, head)}\n${path}`,
          "aria-label": title(layer, head),
          tabindex: () => (stop() ? 0 : -1),
          onclick: () => choose(layer, head),
        },
        picture(layer, head),
      );
    });
    buttons.push(...cells);
    const name = h("span", { class: "name", title: path }, layerNumber(path, layer));
    grid.append(h("div", { class: "gridrow", role: "row" }, name, cells));
  });
  grid.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const moves = /** @type {Record<string, [number, number]>} */ ({
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
    });
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    const { layer, head } = now();
    const count = group.layers.length;
    const across = Math.max(
      0,
      columns.findIndex((one) => one.head === head),
    );
    const [down, right] = [(layer + move[0] + count) % count, (across + move[1] + columns.length) % columns.length];
    choose(down, columns[right].head);
    buttons[down * columns.length + right].focus();
  });
  return grid;
}

/** What goes through all layers, in place of a head; null where that means nothing. @param {state.Group} group */
export const rollout = (group) =>
  rolls(group)
    ? h(
        "button",
        {
          class: () => (rolled(group) ? "tab chosen" : "tab"),
          "aria-pressed": () => String(rolled(group)),
          title: () => t("rollout_note"),
          onclick: () => (state.head.value = -1),
        },
        () => t("rollout"),
      )
    : null;
