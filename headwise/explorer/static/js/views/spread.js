// @ts-check
/** How evenly each node looks at those that it hears of: the entropy of its weights beside that of equal ones. */

import { drawn, placed } from "../core/chart.js";
import { h } from "../dom.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { t } from "../strings.js";

/** @param {HTMLElement} place @param {import("../pages/graph.js").Seen} seen @returns {() => void} */
export function mount(place, seen) {
  const { nodes } = seen.part;
  const most = Math.max(2, ...nodes.map((one) => one.heard));
  const x = { low: 1, high: most, log: most > 20, whole: true, name: t("heard_of") };
  const y = { low: 0, high: Math.max(Math.log(most), ...Array.from(seen.entropy)) * 1.05, name: t("entropy_nats") };
  const canvas = h("canvas", { class: "chart", role: "img" });
  const line = h("p", { class: "legend" });
  const dashes = h("span", { class: "dashes", "aria-hidden": "true" });
  const explained = h("div", { class: "legend kinds" }, h("span", { class: "kind" }, dashes, t("allAlike")));
  place.append(h("h2", {}, t("spread")), h("div", { class: "axis-title" }, y.name), canvas, explained, line);
  const even = nodes.reduce((all, one) => all + Math.log(Math.max(1, one.heard)), 0) / nodes.length;
  const mean = Array.from(seen.entropy).reduce((all, one) => all + one, 0) / nodes.length;
  const summary = t("mean_entropy", mean.toFixed(2), even.toFixed(2));
  canvas.setAttribute("aria-label", `${t("spread")}: ${summary}`);
  const points = nodes.map((one, at) => ({ x: Math.max(1, one.heard), y: seen.entropy[at] }));
  const paint = () => {
    void state.dark.value;
    const now = state.lookedAt();
    const css = getComputedStyle(canvas);
    const [link, mark, soft] = ["--link", "--mark", "--soft"].map((name) => css.getPropertyValue(name).trim());
    const curve = Array.from({ length: 60 }, (_, at) => {
      const heard = Math.exp((Math.log(most) * at) / 59);
      return { x: heard, y: Math.log(heard) };
    });
    const shown = points.map((point, at) => ({ ...point, colour: at === now ? mark : link, marked: at === now }));
    drawn(canvas, { x, y, lines: [{ points: curve, colour: soft, dashed: true }], points: shown });
    line.textContent =
      now >= 0 && now < nodes.length
        ? t("node_entropy", nodes[now].name, points[now].y.toFixed(2), Math.log(points[now].x).toFixed(2))
        : summary;
  };
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    const near = points.map((point, at) => {
      const { left, top } = placed(x, y, point, box.width, box.height);
      return { at, far: Math.hypot(left - (event.clientX - box.left), top - (event.clientY - box.top)) };
    });
    near.sort((one, two) => one.far - two.far);
    const found = near[0].far < 14 ? near[0].at : -1;
    if (found !== state.lookedAt()) state.hovered.value = found < 0 ? null : { q: found, k: -1 };
  });
  canvas.addEventListener("pointerleave", () => (state.hovered.value = null));
  const end = effect(paint);
  const resized = new ResizeObserver(() => paint());
  resized.observe(canvas);
  return () => {
    resized.disconnect();
    end();
  };
}
