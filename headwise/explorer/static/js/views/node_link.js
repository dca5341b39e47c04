// @ts-check
/** A drawing of nodes and edges, each line as wide as its weight; and a table of what one node attends to. */

import { ticks } from "../core/bar.js";
import { lettersOn } from "../core/color.js";
import { wide } from "../core/wide.js";
import { cut, percent, share } from "../core/text.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { phrase, t } from "../strings.js";
import { fact, shares } from "./shares.js";
import { swatch } from "./swatch.js";

/** @typedef {import("../pages/graph.js").Seen} Seen */

const ROWS = 14;
/** Letters that a node has room for, and that stand below it; nodes that all have their names. */
const [SHORT, BELOW, NAMED] = [4, 12, 30];
/** Pixels of the widest line, of a node's radius, and of the letters beside lines. */
const [WIDEST, RADIUS, LETTERS] = [9, 18, 12];

/**
 * The node that is looked at: under the pointer, chosen, or the one in the middle; -1 for none of a molecule.
 * @param {Seen} seen
 */
function focus(seen) {
  const now = state.lookedAt();
  return now >= 0 && now < seen.part.nodes.length ? now : seen.trace.places.chosen === null ? -1 : 0;
}

/** @param {HTMLElement} place @param {Seen} seen @returns {() => void} */
export function mount(place, seen) {
  const { part } = seen;
  const canvas = h("canvas", { class: "edges", "aria-hidden": "true" });
  const nodes = part.nodes.map((_, number) => dot(seen, number));
  const field = h(
    "div",
    { class: nodes.length > NAMED ? "field many" : "field", role: "group", "aria-label": t("graph") },
    canvas,
    nodes,
  );
  field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const at = nodes.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    nodes[(at + by + nodes.length) % nodes.length].focus();
  });
  const left = part.left ? ` · ${part.left.toLocaleString("en")} ${t("left_out")}` : "";
  const kinds = part.kinds.map(([kind, colour]) => h("span", { class: "kind" }, swatch(colour), kind));
  const widths = h("div", { class: "legend kinds" });
  const note = h("p", { class: "legend" });
  place.append(
    h("h2", { title: seen.path }, seen.title),
    field,
    h("div", { class: "legend kinds" }, h("span", {}, t(state.reads() === "molecule" ? "atoms" : "classes")), kinds),
    widths,
    note,
  );
  const paint = () => {
    void [state.dark.value, state.loops.value];
    const now = focus(seen);
    const most = draw(canvas, seen, now);
    marked(nodes, seen, now);
    fill(widths, h("span", {}, t("line_width")), ticks(most, "linear").slice(1).map(sample));
    const counts = `${part.nodes.length} ${t("of_nodes")} ${part.total.toLocaleString("en")}${left}`;
    note.textContent = `${t(now < 0 ? "halves_note" : "lines_note")} ${counts}.`;
  };
  const sample = (/** @type {[number, string]} */ [at, text]) => {
    const line = h("span", { class: "width", "aria-hidden": "true" });
    line.style.height = `${Math.max(1, WIDEST * at)}px`;
    return h("span", { class: "kind" }, line, text);
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

/** A node as a button. @param {Seen} seen @param {number} number */
function dot(seen, number) {
  const one = seen.part.nodes[number];
  const fits = one.name.length <= SHORT;
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
    fits ? one.name : h("span", { class: "name" }, cut(one.name, BELOW)),
  );
  button.style.left = `${6 + 88 * one.x}%`;
  button.style.top = `${7 + 84 * one.y}%`;
  const [, colour] = /** @type {[string, string]} */ (seen.part.kinds.find(([kind]) => kind === one.kind));
  button.style.backgroundColor = colour;
  if (fits) button.style.color = lettersOn(colour);
  if (one.hop === 0 && seen.trace.places.chosen !== null) button.classList.add("middle");
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

/**
 * The edges, and over them lines as wide as weights with their numbers; the largest weight.
 * @param {HTMLCanvasElement} canvas
 * @param {Seen} seen
 * @param {number} now
 */
function draw(canvas, seen, now) {
  const dots = window.devicePixelRatio || 1;
  const [width, height] = [Math.max(1, canvas.clientWidth), Math.max(1, canvas.clientHeight)];
  [canvas.width, canvas.height] = [Math.round(width * dots), Math.round(height * dots)];
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.scale(dots, dots);
  const css = getComputedStyle(canvas);
  const [faint, strong, page, ink] = ["--faint", "--link", "--page", "--ink"].map((name) =>
    css.getPropertyValue(name).trim(),
  );
  const spots = seen.part.nodes.map(({ x, y }) => [(0.06 + 0.88 * x) * width, (0.07 + 0.84 * y) * height]);
  const shown = [...table_of(seen)]
    .map(([pair, weight]) => [...pair.split(",").map(Number), weight])
    .filter(([q, k]) => q !== k && (now < 0 || q === now))
    .sort((one, two) => two[2] - one[2]);
  const most = Math.max(1e-9, ...shown.map(([, , weight]) => weight));
  const line = (
    /** @type {number} */ q,
    /** @type {number} */ k,
    /** @type {number} */ wide,
    /** @type {string} */ ink,
    length = 1,
  ) => {
    const [[x, y], [right, down]] = [spots[q], spots[k]];
    context.strokeStyle = ink;
    context.lineWidth = wide;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + length * (right - x), y + length * (down - y));
    context.stroke();
  };
  for (const [q, k] of seen.part.pairs) if (q < k) line(q, k, 1, faint);
  for (const [first, second, order] of seen.part.bonds) if (order > 1) line(first, second, 3 * order, faint);
  // the two directions between two nodes share a line: each half is as wide as what the node at its end gives
  const length = now < 0 ? 0.5 : 1;
  for (const [q, k, weight] of shown) line(q, k, Math.max(0.5, (WIDEST * weight) / most), strong, length);
  /** @type {number[][]} */
  const taken = spots.map(([x, y]) => [x, y, RADIUS, RADIUS]);
  context.font = `600 ${LETTERS}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const [q, k, weight] of shown) {
    const [[x, y], [right, down]] = [spots[q], spots[k]];
    const along = now < 0 ? 0.3 : 0.6;
    const text = share(weight);
    const box = [x + along * (right - x), y + along * (down - y), wide(text, LETTERS) / 2 + 3, LETTERS / 2 + 2];
    const clear = (/** @type {number[]} */ [left, top, across, tall]) =>
      Math.abs(left - box[0]) >= across + box[2] || Math.abs(top - box[1]) >= tall + box[3];
    // the larger weights come first; what would cover one of them is in the list beside the drawing
    if (!taken.every(clear)) continue;
    taken.push(box);
    context.fillStyle = page;
    context.fillRect(box[0] - box[2], box[1] - box[3], 2 * box[2], 2 * box[3]);
    context.fillStyle = ink;
    context.fillText(text, box[0], box[1]);
  }
  return most;
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
    node.classList.toggle("named", heard || nodes.length <= NAMED);
    node.classList.toggle("chosen", at === now);
    // all nodes are one stop of the tabulator, between which the arrows go
    node.tabIndex = at === Math.max(0, now) ? 0 : -1;
    const own = weights.get(`${at},${at}`);
    const ring = own !== undefined && (now < 0 || at === now) ? Math.round(8 * own) : 0;
    node.style.boxShadow = ring ? `0 0 0 ${ring}px var(--ring)` : "";
  });
}

/**
 * What one node attends to, or the strongest pairs of a molecule, in a sentence and as bars.
 * @param {HTMLElement} place
 * @param {Seen} seen
 * @returns {() => void}
 */
export function reading(place, seen) {
  const inner = h("div");
  place.append(inner, h("p", { class: "note" }, t("note")));
  const { nodes } = seen.part;
  const strong = (/** @type {string} */ text) => h("strong", {}, h("bdi", {}, text));
  let shown = "";
  return effect(() => {
    const now = focus(seen);
    // a button that is pressed while the focus leaves a node stays where it is
    const next = `${now} ${state.loops.value} ${state.language.value}`;
    if (next === shown) return undefined;
    shown = next;
    const found = [...table_of(seen)]
      .map(([pair, weight]) => ({ q: Number(pair.split(",")[0]), k: Number(pair.split(",")[1]), weight }))
      .filter((one) => now < 0 || one.q === now)
      .sort((one, two) => two.weight - one.weight);
    if (!found.length) return fill(inner, h("p", {}, t("alone")));
    const [first] = found;
    const name = (/** @type {number} */ at) => cut(nodes[at].name, 16);
    const to = (/** @type {number} */ q, /** @type {number} */ k) => (q === k ? t("itself") : name(k));
    const label = (/** @type {number} */ at) => {
      const { q, k } = found[at];
      return now < 0 ? `${name(q)} → ${to(q, k)}` : `${to(q, k)} (${cut(nodes[k].kind, 10)})`;
    };
    const row = found.map(({ weight }) => weight);
    const centre =
      now >= 0 && seen.trace.places.chosen !== null && nodes[now].hop > 0
        ? h("button", { class: "asks", onclick: () => state.give({ text: nodes[now].name }) }, t("centre"))
        : null;
    const nats = (/** @type {number} */ value) => `${value.toFixed(2)} ${t("nats")}`;
    const facts = () => [
      fact("entropy", nats(seen.entropy[now])),
      fact("even", nats(Math.log(Math.max(1, nodes[now].heard)))),
    ];
    fill(
      inner,
      h(
        "p",
        { class: "say" },
        phrase("say_node", strong(name(first.q)), strong(percent(first.weight, 1)), strong(to(first.q, first.k))),
      ),
      h(
        "h2",
        {},
        now < 0 ? t("strongest_pairs") : phrase("row_of", h("bdi", {}, `${name(now)} (${cut(nodes[now].kind, 12)})`)),
      ),
      shares(label, row, Array.from(row.keys()), 0, { most: ROWS, full: row[0] || 1 }),
      found.length > ROWS ? h("p", { class: "legend" }, t("fewer", found.length - ROWS)) : null,
      now < 0 ? null : h("dl", { class: "facts" }, facts().flat()),
      centre,
    );
    return undefined;
  });
}
