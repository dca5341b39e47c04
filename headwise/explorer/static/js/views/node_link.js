// @ts-check
/** A drawing of nodes and edges, each line as wide as its weight; and a table of what one node attends to. */

import { lettersOn } from "../core/color.js";
import { cut, number } from "../core/text.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { t } from "../strings.js";
import { swatch } from "./swatch.js";

/** @typedef {import("../pages/graph.js").Seen} Seen */

const ROWS = 14;
/** Letters that a node has room for. */
const SHORT = 4;

/** The node that is looked at, -1 for none. @param {Seen} seen */
function focus(seen) {
  const now = state.lookedAt();
  return now >= 0 && now < seen.part.nodes.length ? now : -1;
}

/** @param {HTMLElement} place @param {Seen} seen @returns {() => void} */
export function mount(place, seen) {
  const { part } = seen;
  const canvas = h("canvas", { class: "edges", "aria-hidden": "true" });
  const molecule = seen.trace.places.chosen === null;
  const nodes = part.nodes.map((_, number) => dot(seen, number, molecule));
  const field = h("div", { class: "field", role: "group", "aria-label": t("graph") }, canvas, nodes);
  const left = part.left ? ` · ${part.left.toLocaleString("en")} ${t("left_out")}` : "";
  const legend = part.kinds.map(([kind, colour]) => h("span", { class: "kind" }, swatch(colour), kind));
  place.append(
    h("h2", {}, seen.title),
    field,
    h("p", { class: "legend kinds" }, legend),
    h(
      "p",
      { class: "legend" },
      `${part.nodes.length} ${t("of_nodes")} ${part.total.toLocaleString("en")}${left} · ${t("edges_note")}`,
    ),
  );
  const paint = () => {
    void [state.dark.value, state.loops.value];
    const now = focus(seen);
    draw(canvas, seen, now);
    marked(nodes, seen, now);
  };
  const end = effect(paint);
  const resized = new ResizeObserver(() => paint());
  resized.observe(canvas);
  return () => {
    resized.disconnect();
    end();
    state.hovered.value = null;
  };
}

/** A node as a button. @param {Seen} seen @param {number} number @param {boolean} molecule */
function dot(seen, number, molecule) {
  const one = seen.part.nodes[number];
  const button = h(
    "button",
    {
      class: "node",
      "aria-label": `${one.name} (${one.kind})`,
      title: `${one.name} (${one.kind})`,
      onpointerenter: () => (state.hovered.value = { q: number, k: -1 }),
      onpointerleave: () => (state.hovered.value = null),
      onfocus: () => (state.hovered.value = { q: number, k: -1 }),
      onblur: () => (state.hovered.value = null),
      onclick: () => {
        state.query.value = state.query.peek() === number ? -1 : number;
        state.key.value = -1;
      },
    },
    // a name that fits says more than a kind, which has its colour
    one.name.length <= SHORT ? one.name : cut(one.kind, 2),
  );
  button.style.left = `${5 + 90 * one.x}%`;
  button.style.top = `${6 + 88 * one.y}%`;
  const [, colour] = /** @type {[string, string]} */ (seen.part.kinds.find(([kind]) => kind === one.kind));
  button.style.backgroundColor = colour;
  button.style.color = lettersOn(colour);
  if (one.hop === 0 && !molecule) button.classList.add("middle");
  return button;
}

/** Weights by (query, key); self-loops where they are shown. @param {Seen} seen */
function table_of(seen) {
  /** @type {Map<string, number>} */
  const found = new Map();
  seen.part.pairs.forEach(([q, k], edge) => {
    if (q !== k || !state.loops.value) found.set(`${q},${k}`, seen.weights[edge]);
  });
  return found;
}

/** @param {HTMLCanvasElement} canvas @param {Seen} seen @param {number} now */
function draw(canvas, seen, now) {
  const dots = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * dots));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * dots));
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const css = getComputedStyle(canvas);
  const [faint, strong] = ["--faint", "--link"].map((name) => css.getPropertyValue(name).trim());
  const spot = (/** @type {number} */ at) => {
    const { x, y } = seen.part.nodes[at];
    return [(0.05 + 0.9 * x) * canvas.width, (0.06 + 0.88 * y) * canvas.height];
  };
  const weights = table_of(seen);
  const shown = [...weights].filter(([pair]) => {
    const [q, k] = pair.split(",").map(Number);
    return q !== k && (now < 0 || q === now);
  });
  const most = Math.max(1e-9, ...shown.map(([, weight]) => weight));
  const line = (
    /** @type {number} */ q,
    /** @type {number} */ k,
    /** @type {number} */ wide,
    /** @type {string} */ ink,
    /** @type {number} */ alpha,
    length = 1,
  ) => {
    const [[x, y], [right, down]] = [spot(q), spot(k)];
    context.strokeStyle = ink;
    context.globalAlpha = alpha;
    context.lineWidth = wide * dots;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + length * (right - x), y + length * (down - y));
    context.stroke();
  };
  context.lineCap = "round";
  for (const [q, k] of seen.part.pairs) if (q < k) line(q, k, 1, faint, 1);
  for (const [first, second, order] of seen.part.bonds) if (order > 1) line(first, second, 3 * order, faint, 0.7);
  for (const [pair, weight] of shown) {
    const [q, k] = pair.split(",").map(Number);
    const share = Math.max(0, weight / most);
    // the two directions between two nodes share a line: each half is as wide as what the node at its end gives
    line(q, k, 0.75 + 6 * share, strong, 0.2 + 0.75 * share, now < 0 ? 0.5 : 1);
  }
  context.globalAlpha = 1;
}

/**
 * The node that is looked at, those it attends to, and how much each attends to itself.
 * @param {HTMLElement[]} nodes
 * @param {Seen} seen
 * @param {number} now
 */
function marked(nodes, seen, now) {
  const weights = table_of(seen);
  nodes.forEach((node, at) => {
    const heard = now < 0 || at === now || weights.has(`${now},${at}`);
    node.classList.toggle("faint", !heard);
    node.classList.toggle("chosen", at === now);
    const own = weights.get(`${at},${at}`);
    const ring = own !== undefined && (now < 0 || at === now) ? Math.round(8 * own) : 0;
    node.style.boxShadow = ring ? `0 0 0 ${ring}px var(--ring)` : "";
  });
}

/** What one node attends to, as a table. @param {HTMLElement} place @param {Seen} seen @returns {() => void} */
export function table(place, seen) {
  const inner = h("div");
  place.append(inner);
  return effect(() => {
    const now = Math.max(0, focus(seen));
    const { nodes } = seen.part;
    const found = [...table_of(seen)]
      .map(([pair, weight]) => ({ q: Number(pair.split(",")[0]), k: Number(pair.split(",")[1]), weight }))
      .filter((one) => one.q === now)
      .sort((one, two) => two.weight - one.weight);
    const rows = found
      .slice(0, ROWS)
      .map(({ k, weight }) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, k === now ? t("itself") : cut(nodes[k].name, 16)),
          h("td", {}, cut(nodes[k].kind, 10)),
          h("td", {}, number(weight)),
        ),
      );
    const centre =
      seen.trace.places.chosen !== null && nodes[now].hop > 0
        ? h("button", { class: "asks", onclick: () => state.give({ text: nodes[now].name }) }, t("centre"))
        : null;
    const more = found.length > ROWS ? h("p", { class: "legend" }, `+ ${found.length - ROWS}`) : null;
    const largest = Math.log(Math.max(1, nodes[now].heard));
    const spread = `${t("entropy")} ${number(seen.entropy[now])} / ${number(largest)} ${t("nats")}`;
    fill(
      inner,
      h("h2", {}, `${t("neighbours")}: ${cut(nodes[now].name, 20)} (${cut(nodes[now].kind, 12)})`),
      h("table", { class: "numbers" }, h("tbody", {}, rows)),
      more,
      h("p", { class: "legend" }, spread),
      centre,
    );
  });
}
