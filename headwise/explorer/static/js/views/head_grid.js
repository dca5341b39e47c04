// @ts-check
/** Every head of a group as a small picture, layer by layer; one is chosen. */

import { getIdle, query } from "../api.js";
import { h } from "../dom.js";
import { painted } from "../core/heatmap.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { headTitle } from "../titles.js";
import { GAP, gridOf } from "./grid.js";
import { rolled, rolls, silenced } from "./seen.js";

/**
 * Pixels of the pictures of all layers, and of the numbers above them.
 * @param {state.Group} group @param {number} side
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
    // a muted head is no head of zeros
    if (silenced(group.layers[layer], head)) entries.fill(-1);
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
 * The heads of a long input without their pictures, which take seconds.
 * @param {HTMLElement} place @param {state.Group} group @param {boolean} dark @param {number} side
 */
export function mountEmpty(place, group, dark, side) {
  const empty = new Uint8Array(group.layers.length * group.heads);
  mount(place, group, { shape: [group.layers.length, group.heads, 1, 1], data: empty }, dark, side);
}

/**
 * The pictures of a long input, one after another: the chosen head first, then its layer, then the others.
 * @param {HTMLElement} place @param {state.Trace} trace @param {state.Group} group @param {boolean} dark
 * @param {HTMLElement} line says how many have come @param {() => boolean} alive
 */
export async function fillLong(place, trace, group, dark, line, alive) {
  const canvases = [...place.querySelectorAll("canvas.thumb")];
  let drawn = 0;
  const now = state.place(group);
  const order = canvases.map((_, at) => [Math.floor(at / group.heads), at % group.heads]);
  const far = (/** @type {number[]} */ [layer, head]) =>
    Math.abs(layer - now.at) * group.heads + (layer === now.at ? Math.abs(head - now.head) : head);
  for (const [layer, head] of order.sort((one, two) => far(one) - far(two))) {
    line.textContent = t("heads_coming", drawn, canvases.length);
    drawn += 1;
    const asked = query({ layer: group.layers[layer], head, size: 32 });
    const small = await getIdle(`/api/v1/traces/${trace.trace_id}/thumb?${asked}`, alive);
    if (!small || !alive()) return;
    const { shape, data } = small;
    const picture = painted(Int16Array.from(data), shape[0], shape[1], dark ? "ink dark" : "ink light");
    picture.className = "thumb";
    canvases[layer * group.heads + head].replaceWith(picture);
  }
  line.textContent = t("rows_columns");
  place.dataset.complete = "true";
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
