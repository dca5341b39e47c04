// @ts-check
/** Every head of a group as a small picture, layer by layer; one is chosen. */

import { h } from "../dom.js";
import { painted } from "../core/heatmap.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { rolled, rolls } from "./seen.js";

/**
 * @param {HTMLElement} place @param {state.Group} group @param {import("../core/npy.js").Numbers} thumbs
 * @param {boolean} dark
 */
export function mount(place, group, thumbs, dark) {
  const now = () => state.place(group);
  const [layers, heads, rows, columns] = thumbs.shape;
  const buttons = [];
  const grid = h("div", { class: "grid", role: "grid", "aria-label": t("heads") });
  for (let layer = 0; layer < layers; layer += 1) {
    const row = h("div", { class: "gridrow", role: "row" }, h("span", { class: "name" }, `${layer}`));
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
          title: `${group.layers[layer]} · ${t("head")} ${head}`,
          "aria-label": `${group.layers[layer]}, ${t("head")} ${head}`,
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
  if (rolls(group)) place.append(h("button", { class: () => (rolled(group) ? "tab chosen" : "tab"), title: () => t("rollout_note"), onclick: () => (state.head.value = -1) }, () => t("rollout")));
}
