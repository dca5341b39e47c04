// @ts-check
/** How evenly each node looks at those that it hears of: the entropy of its weights beside that of equal ones. */

import { drawn, placed } from "../core/chart.js";
import { h } from "../dom.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { t } from "../strings.js";

/** So many nodes have a bar each; more are points of a chart. */
const LISTED = 24;
/** A share of the entropy of equal weights from which on the bars of all nodes would look full. */
const EVEN = 0.97;

/** @typedef {import("../pages/graph.js").Seen} Seen */

/** @param {HTMLElement} place @param {Seen} seen @returns {() => void} */
export const mount = (place, seen) =>
  (alike(seen) ? sentence : seen.part.nodes.length > LISTED ? chart : bars)(place, seen);

/** Whether every node looks at all that it hears of with almost the same weight. @param {Seen} seen */
const alike = ({ part: { nodes }, entropy }) =>
  nodes.every((node, at) => node.heard < 2 || entropy[at] >= EVEN * evenOf(node));

/** There is nothing to compare. @type {typeof mount} */
function sentence(place, seen) {
  place.classList.add("alike");
  place.append(h("h2", {}, t("spread")), h("p", {}, t("all_even")), h("p", { class: "legend" }, meanOf(seen)));
  return () => place.classList.remove("alike");
}

/** The entropy of equal weights. @param {{ heard: number }} node */
const evenOf = ({ heard }) => Math.log(Math.max(1, heard));

/** A bar for each node, as long as its share of the entropy of equal weights. @type {typeof mount} */
function bars(place, seen) {
  const { nodes } = seen.part;
  const share = (/** @type {number} */ at) => Math.min(1, seen.entropy[at] / (evenOf(nodes[at]) || 1));
  const order = nodes.map((_, at) => at).sort((one, two) => share(one) - share(two));
  const lines = order.map((at) => {
    const track = h("span", { class: "track" });
    track.style.width = `${100 * share(at)}%`;
    const value = t("of_even", seen.entropy[at].toFixed(2), evenOf(nodes[at]).toFixed(2));
    return h(
      "div",
      {
        class: () => (state.lookedAt() === at ? "on" : null),
        onpointerenter: () => (state.hovered.value = { q: at, k: -1 }),
        onpointerleave: () => (state.hovered.value = null),
      },
      h("bdi", {}, nodes[at].name),
      h("span", { class: "full" }, track),
      h("span", {}, value),
    );
  });
  place.append(
    h("h2", {}, t("spread")),
    h("p", { class: "side" }, t("spread_bars")),
    h("div", { class: "shares" }, lines),
    h("p", { class: "legend" }, meanOf(seen)),
  );
  return () => {};
}

/** @param {Seen} seen */
function meanOf({ part: { nodes }, entropy }) {
  const even = nodes.reduce((all, one) => all + evenOf(one), 0) / nodes.length;
  const mean = Array.from(entropy).reduce((all, one) => all + one, 0) / nodes.length;
  return t("mean_entropy", mean.toFixed(2), even.toFixed(2));
}

/** @type {typeof mount} */
function chart(place, seen) {
  const { nodes } = seen.part;
  const most = Math.max(2, ...nodes.map((one) => one.heard));
  const x = { low: 1, high: most, log: most > 20, whole: true, name: t("heard_of") };
  const y = { low: 0, high: Math.max(Math.log(most), ...Array.from(seen.entropy)) * 1.05, name: t("entropy_nats") };
  const canvas = h("canvas", { class: "chart", role: "img" });
  const line = h("p", { class: "legend" });
  const dashes = h("span", { class: "dashes", "aria-hidden": "true" });
  const explained = h("div", { class: "legend kinds" }, h("span", { class: "kind" }, dashes, t("allAlike")));
  place.append(h("h2", {}, t("spread")), h("div", { class: "axis-title" }, y.name), canvas, explained, line);
  const summary = meanOf(seen);
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
