// @ts-check
/** The heads of a layer at one step as small pictures; one is chosen, those that choose no key are marked. */

import { fill, h } from "../dom.js";
import { painted } from "../core/heatmap.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { headName } from "../titles.js";

/**
 * @param {HTMLElement} place @param {import("../core/npy.js").Numbers} thumbs
 * @param {{ head: number, why: string, other: number }[]} flags @param {boolean} dark
 */
export function show(place, thumbs, flags, dark) {
  const [heads, rows, columns] = thumbs.shape;
  const focused = place.contains(document.activeElement);
  const buttons = Array.from({ length: heads }, (_, head) => {
    const entries = Int16Array.from(thumbs.data.subarray(head * rows * columns, (head + 1) * rows * columns));
    const canvas = painted(entries, rows, columns, dark ? "ink dark" : "ink light");
    canvas.className = "thumb";
    const flag = flags.find((one) => one.head === head);
    const name = `${headName(head)}${flag ? `: ${reason(flag)}` : ""}`;
    return h(
      "button",
      {
        class: () => (chosen(heads) === head ? "cell chosen" : "cell"),
        title: name,
        "aria-label": name,
        "aria-pressed": () => String(chosen(heads) === head),
        onclick: () => (state.head.value = head),
      },
      canvas,
      h("span", { class: "number" }, `${head + 1}${flag ? " ⚑" : ""}`),
    );
  });
  const told = flags.map((flag) => h("p", { class: "flag" }, `⚑ ${headName(flag.head)}: ${reason(flag)}`));
  const strip = h("div", { class: "gridrow filmstrip", role: "group", "aria-label": t("heads") }, buttons);
  fill(place, h("div", { class: "strip-of-heads" }, h("span", { class: "side" }, t("heads")), strip), told);
  if (focused) buttons[chosen(heads)].focus();
}

/** @param {number} heads */
const chosen = (heads) => Math.min(Math.max(0, state.head.value), heads - 1);

/** @param {{ why: string, other: number }} flag */
export function reason(flag) {
  if (flag.why === "uniform") return t("uniform");
  return flag.why === "same" ? `${t("sameAs")} ${flag.other + 1}` : t("oneKey");
}
