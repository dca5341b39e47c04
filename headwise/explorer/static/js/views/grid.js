// @ts-check
/** Small pictures in rows of layers and columns of heads, as large as there is room. */

import { h } from "../dom.js";
import { t } from "../strings.js";
import { layerNumber } from "../titles.js";

/**
 * Pixels of a picture, on a wide and on a narrow screen and at least, and around each; of the names of rows and the
 * padding of a panel; below all of them.
 */
export const GAP = 5;
const [LARGEST, SMALLER, LEAST, MARGIN, BELOW] = [54, 36, 14, 50, 100];
/** Pixels of all pictures of a row, beside a map; a screen that is narrower shows the map below. */
const [BESIDE, NARROW] = [392, 760];

/**
 * How large pictures are, so that the map stands beside all of them; a panel becomes as wide as they need.
 * @param {HTMLElement} panel @param {import("../state.js").Group} group
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
 * Pictures in rows of layers, one stop of the tabulator, between which the arrows go.
 * @param {import("../state.js").Group} group
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
