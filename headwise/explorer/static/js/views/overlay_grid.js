// @ts-check
/** What every head of every layer looks at, as small pictures of the image; a row for a layer, its mean first. */

import { drawn, of } from "../core/overlay.js";
import { h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { headName, layerNumber, layerTitle } from "../titles.js";

const SIDE = 68;

/** @param {HTMLElement} place @param {import("../pages/vision.js").Seen} seen */
export function mount(place, seen) {
  const [layers, heads] = seen.weights.shape;
  const grid = h("div", { class: "grid", role: "group", "aria-label": t("heads") });
  const first = heads > 1 ? -1 : 0;
  for (let layer = 0; layer < layers; layer += 1) {
    const row = h(
      "div",
      { class: "gridrow" },
      h("span", { class: "name" }, layerNumber(seen.group.layers[layer], layer)),
    );
    for (let head = first; head < heads; head += 1) row.append(small(seen, layer, head));
    grid.append(row);
  }
  place.append(
    h("h2", {}, t("heads")),
    h("div", { class: "scrolls", tabindex: 0 }, grid),
    h("p", { class: "legend" }, t("each_own_scale")),
  );
}

/** @param {import("../pages/vision.js").Seen} seen @param {number} layer @param {number} head */
function small(seen, layer, head) {
  const { covered, shape } = seen.trace.places;
  const canvas = h("canvas", { class: "thumb over" });
  const scale = SIDE / Math.max(...covered);
  const dots = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(covered[1] * scale * dots));
  canvas.height = Math.max(1, Math.round(covered[0] * scale * dots));
  canvas.style.width = `${canvas.width / dots}px`;
  canvas.style.height = `${canvas.height / dots}px`;
  const glow = getComputedStyle(document.documentElement).getPropertyValue("--glow").trim();
  drawn(canvas, seen.image, {
    weights: of(seen.weights, layer, head),
    axis: seen.axis,
    strength: 0.85,
    covered,
    shape,
    glow,
  });
  const { layers, kind } = seen.group;
  const label = t("layer_head", layerTitle(layers[layer], layer, kind), head < 0 ? t("mean_of_heads") : headName(head));
  const now = () =>
    state.place(seen.group).at === layer && (state.each.value ? state.place(seen.group).head : -1) === head;
  return h(
    "button",
    {
      class: () =>
        now() || (head === 0 && seen.group.heads === 1 && state.place(seen.group).at === layer)
          ? "cell chosen"
          : "cell",
      title: `${label}\n${layers[layer]}`,
      "aria-label": label,
      onclick: () => {
        state.layer.value = layer;
        state.each.value = head < 0 || seen.group.heads === 1 ? "" : "1";
        state.head.value = Math.max(0, head);
      },
    },
    canvas,
  );
}
