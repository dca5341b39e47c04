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
  const now = () => state.place(group);
  const [layers, heads, rows, columns] = thumbs.shape;
  /** @type {HTMLElement[]} */
  const buttons = [];
  const grid = h("div", { class: "grid", role: "grid", "aria-label": t("heads") });
  const numbers = Array.from({ length: heads }, (_, head) => h("span", {}, head + 1));
  grid.style.setProperty("--side", `${side}px`);
  grid.append(
    h("div", { class: "gridrow numbers-of-heads", "aria-hidden": "true" }, h("span", { class: "name" }), numbers),
  );
  for (let layer = 0; layer < layers; layer += 1) {
    const row = h(
      "div",
      { class: "gridrow", role: "row" },
      h("span", { class: "name", title: group.layers[layer] }, layerNumber(group.layers[layer], layer)),
    );
    for (let head = 0; head < heads; head += 1) {
      const at = (layer * heads + head) * rows * columns;
      const entries = Int16Array.from(thumbs.data.subarray(at, at + rows * columns));
      const canvas = painted(entries, rows, columns, dark ? "ink dark" : "ink light");
      canvas.className = "thumb";
      const button = h(
        "button",
        {
          class: () => (now().at === layer && now().head === head && !rolled(group) ? "cell chosen" : "cell"),
          role: "gridcell",
          title: `${headTitle(group, layer, head)}\n${group.layers[layer]}`,
          "aria-label": headTitle(group, layer, head),
          tabindex: () => (now().at === layer && now().head === head ? 0 : -1),
          onclick: () => {
            state.layer.value = layer;
            state.head.value = head;
          },
        },
        canvas,
      );
      buttons.push(button);
      row.append(button);
    }
    grid.append(row);
  }
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
    const { at, head } = now();
    state.layer.value = (at + move[0] + layers) % layers;
    state.head.value = (head + move[1] + heads) % heads;
    buttons[state.layer.peek() * heads + state.head.peek()].focus();
  });
  place.append(grid);
  // of a grid that is higher than its room the chosen layer is seen
  grid.scrollTop = Math.max(0, (now().at - 1) * (side + GAP));
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
