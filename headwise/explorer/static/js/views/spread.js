// @ts-check
/** How evenly each node looks at those that it hears of: the entropy of its weights beside that of equal ones. */

import { coloursOf } from "../core/canvas.js";
import { drawn, placed } from "../core/chart.js";
import { percent } from "../core/text.js";
import { h, repainted } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { layerNumber } from "../titles.js";

/** So many nodes have a bar each; more are points of a chart. */
const LISTED = 24;
/** A share of the entropy of equal weights from which on the bars of all nodes would look full. */
const EVEN = 0.9;

/** What a head lacks that reads as more than none. */
const SEEN = 0.0005;

/** @typedef {import("../pages/graph.js").Seen} Seen */

/** @param {HTMLElement} place @param {Seen} seen @returns {() => void} */
export const mount = (place, seen) =>
  (alike(seen) ? sentence : seen.part.nodes.length > LISTED ? chart : bars)(place, seen);

/** Whether every node looks at all that it hears of with almost the same weight. @param {Seen} seen */
const alike = ({ part: { nodes }, entropy }) =>
  nodes.every((node, at) => node.heard < 2 || entropy[at] >= EVEN * evenOf(node));

/**
 * Bars of nodes would all be full: the node that chooses most in a sentence, and in place of nodes the heads.
 * @type {typeof mount}
 */
function sentence(place, seen) {
  const { nodes } = seen.part;
  const counted = nodes.map((_, at) => at).filter((at) => nodes[at].heard > 1);
  const least = counted.reduce((low, at) => (shareOf(seen, at) < shareOf(seen, low) ? at : low), counted[0]);
  const said = () => t("all_even", nodes[least].name, percent(shareOf(seen, least), 1));
  place.append(
    h("h2", {}, t("spread_head")),
    // of a molecule the sentence beside the drawing says which atoms choose
    state.reads() === "molecule" && counted.length ? "" : h("p", {}, counted.length ? said() : t("hears_itself")),
    h("p", { class: "legend" }, meanOf(seen)),
    ...(counted.length ? ofHeads(seen) : []),
  );
  return () => {};
}

/** A line for each head, as long as what its nodes lack of the entropy of equal weights. @param {Seen} seen */
function ofHeads(seen) {
  const { group, at, head } = seen;
  const { nodes } = seen.part;
  const heads = Array.from({ length: group.layers.length * group.heads }, (_, place) => ({
    layer: Math.floor(place / group.heads),
    head: place % group.heads,
    chooses: lacking(nodes, seen.entropies.subarray(place * nodes.length, (place + 1) * nodes.length)),
  }));
  if (heads.length < 2) return [];
  heads.sort((one, two) => two.chooses - one.chooses);
  const most = heads[0].chooses || 1;
  const now = (/** @type {typeof heads[0]} */ one) => one.layer === at && one.head === head;
  const listed = heads.slice(0, LISTED).filter((one) => one.chooses >= SEEN || now(one));
  const line = (/** @type {typeof heads[0]} */ one) => {
    const track = h("span", { class: "track" });
    track.style.width = `${(100 * one.chooses) / most}%`;
    const on = now(one);
    const name = t("layer_head_n", layerNumber(group.layers[one.layer], one.layer), one.head + 1);
    const go = () => state.go(group, { at: one.layer, head: one.head });
    return h(
      "div",
      { class: on ? "on" : null },
      h("button", { class: "small", "aria-pressed": String(on), onclick: go }, name),
      h("span", {}, track),
      h("span", {}, percent(one.chooses, 1)),
    );
  };
  return [
    h("h2", {}, t("heads_choosing")),
    h("p", { class: "side" }, t("heads_choosing_bars", percent(most, 1))),
    h("div", { class: "shares" }, listed.map(line)),
    listed.length < heads.length ? h("p", { class: "legend" }, t("fewer", heads.length - listed.length)) : "",
  ];
}

/**
 * What the nodes lack of the entropy of equal weights, on average.
 * @param {Seen["part"]["nodes"]} nodes @param {ArrayLike<number>} entropy
 */
function lacking(nodes, entropy) {
  const counted = nodes.flatMap((node, at) => (node.heard > 1 ? [Math.max(0, 1 - entropy[at] / evenOf(node))] : []));
  return counted.reduce((sum, one) => sum + one, 0) / Math.max(1, counted.length);
}

/** @param {Seen} seen @param {number} at */
const shareOf = ({ part: { nodes }, entropy }, at) => Math.min(1, entropy[at] / (evenOf(nodes[at]) || 1));

/** The entropy of equal weights. @param {{ heard: number }} node */
const evenOf = ({ heard }) => Math.log(Math.max(1, heard));

/** A bar for each node, as long as its share of the entropy of equal weights. @type {typeof mount} */
function bars(place, seen) {
  const { nodes } = seen.part;
  const share = (/** @type {number} */ at) => shareOf(seen, at);
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
  return t("mean_entropy", percent(1 - lacking(nodes, entropy), 1));
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
    const [link, mark, soft] = coloursOf(canvas, "--link", "--mark", "--soft");
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
  return repainted(canvas, paint);
}
