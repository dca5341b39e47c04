// @ts-check
/** What every head of every layer looks at, as small pictures of the image; a row for a layer, its mean first. */

import { STRENGTH } from "../core/color.js";
import { drawn, of } from "../core/overlay.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { headName, layerTitle } from "../titles.js";
import { gridOf, sideOf } from "./grid.js";

/**
 * @param {HTMLElement} place @param {import("../pages/vision.js").Seen} seen
 * @param {() => number} chosen the head that is looked at, -1 for the mean
 */
export function mount(place, seen, chosen) {
  const { group } = seen;
  // where there are several heads, their mean is -1
  const heads = Array.from({ length: group.heads }, (_, head) => head);
  if (group.heads > 1) heads.unshift(-1);
  const side = sideOf(place, { ...group, heads: heads.length });
  const grid = gridOf(group, {
    side,
    columns: heads.map((head) => ({ head, name: head < 0 ? t("mean") : String(head + 1) })),
    picture: (layer, head) => small(seen, layer, head, side),
    title: (layer, head) =>
      t(
        "layer_head",
        layerTitle(group.layers[layer], layer, group.kind),
        head < 0 ? t("mean_of_heads") : headName(head),
      ),
    now: () => ({ layer: state.place(group).at, head: chosen() }),
    choose: (layer, head) => {
      state.layer.value = layer;
      state.each.value = head < 0 ? "mean" : "1";
      state.head.value = Math.max(0, head);
    },
  });
  const focused = place.contains(document.activeElement);
  fill(
    place,
    h(
      "div",
      { class: "heading" },
      h("h2", {}, t("heads")),
      h("span", { class: "side", title: t("each_own_scale") }, t("rows_columns")),
    ),
    grid,
  );
  // a grid that is drawn anew keeps the focus
  if (focused) /** @type {HTMLElement | null} */ (grid.querySelector('[tabindex="0"]'))?.focus();
}

/**
 * @param {import("../pages/vision.js").Seen} seen @param {number} layer @param {number} head
 * @param {number} side pixels
 */
function small(seen, layer, head, side) {
  const { covered, shape } = seen.trace.places;
  const canvas = h("canvas", { class: "thumb over" });
  const scale = side / Math.max(...covered);
  const dots = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(covered[1] * scale * dots));
  canvas.height = Math.max(1, Math.round(covered[0] * scale * dots));
  canvas.style.width = `${canvas.width / dots}px`;
  canvas.style.height = `${canvas.height / dots}px`;
  const weights = of(seen.weights, layer, head);
  drawn(canvas, seen.image, { weights, axis: seen.axis, strength: STRENGTH, covered, shape, ramp: state.inks() });
  return canvas;
}
