// @ts-check
/** A drawing of nodes and edges, each line as wide as its weight; and a table of what one node attends to. */

import { ticks } from "../core/bar.js";
import { lettersOn } from "../core/color.js";
import { apart, isAromatic, molecule, stretched } from "../core/placing.js";
import { cut, percent } from "../core/text.js";
import { wide } from "../core/canvas.js";
import { fill, h, repainted, strong } from "../dom.js";
import { MOVES, wrapped } from "../keys.js";
import * as state from "../state.js";
import { batch, effect } from "../store.js";
import { phrase, sentences, t } from "../strings.js";
import { draw, numbersOf } from "./edges.js";
import { classed } from "./naming.js";
import { fact, shares } from "./shares.js";
import { swatch } from "./swatch.js";

/** @typedef {import("../pages/graph.js").Seen} Seen */
/** @typedef {import("./edges.js").Edge} Edge */

/** Bars at most, and below a paragraph. */
const [ROWS, FEWER] = [14, 10];
/** Letters that a node has room for, and that stand below it; nodes that all have their names. */
const [SHORT, BELOW, NAMED] = [4, 12, 30];
/** Pixels of the widest line, and of that behind the bonds of a molecule. */
const [WIDEST, BAND] = [9, 18];
/** Pixels of the ring of a node that takes all from itself. */
const RING = 8;
/** Pixels between a node or its ring and its frame. */
const FRAME = 2;
/** Pixels of letters beside bonds, at least and at most. */
const LETTERS = [12, 16];
/** Atoms of a long chain at least, and how often it is as long as high. */
const [CHAIN, FLAT] = [10, 4];
/** Pixels of a node, beside its name, and where nodes are many;
 * of an atom at most and at least; bonds with room for the numbers of atoms. */
const [NODE, BESIDE, CLOSE, ATOM, SMALLEST, NUMBERED] = [32, 12, 6, 26, 18, 34];
/** Pixels of the field of a molecule that grows with what it holds, at most. */
const TALLEST = 500;
/** A share of the entropy of equal weights from which on a row is as good as even. */
const EVEN = 0.98;
/** Points above equal weights up to which a row is as good as even; so many atoms that choose are named. */
const [POINTS, NAMES] = [5, 4];
/** Pixels of a screen on which the row stands below the drawing, as graph.css has it. */
const NARROW = 1120;
/** Steps to neighbours at most. */
export const MOST_STEPS = 3;
/** Widths in a legend, of lines and of rings. */
const [SAMPLES, RINGS] = [3, 2];

/**
 * The node that is looked at: under the pointer, chosen, or the one in the middle; -1 for none of a molecule.
 * @param {Seen} seen
 */
function focus(seen) {
  const now = state.lookedAt();
  return now >= 0 && now < seen.part.nodes.length ? now : seen.trace.places.chosen === null ? -1 : 0;
}

/** @param {HTMLElement} place @param {Seen} seen */
export function mount(place, seen) {
  const { part } = seen;
  const chemical = state.reads() === "molecule";
  const canvas = h("canvas", { class: "edges", "aria-hidden": "true" });
  const nodes = part.nodes.map((_, number) => dot(seen, number));
  const looks = ["field", nodes.length > NAMED && !chemical ? "many" : "", chemical ? "molecule" : ""];
  const field = h(
    "div",
    { class: looks.filter(Boolean).join(" "), role: "group", "aria-label": t("graph") },
    canvas,
    nodes,
  );
  // a long chain has the width of the page, and what is read stands below it
  place.parentElement?.classList.toggle("low", chemical && isLow(part.nodes));
  field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    const by = move[0] + move[1];
    const at = nodes.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const last = nodes.length - 1;
    const to = Math.abs(by) === 1 ? wrapped(at + by, nodes.length) : by < 0 ? 0 : last;
    nodes[to].focus();
    // a focus that a tabulator brings changes nothing that is read
    state.hovered.value = { q: to, k: -1 };
  });
  const kinds = part.kinds.map(([kind, colour]) => h("span", { class: "kind" }, swatch(colour), kind));
  const widths = h("div", { class: "legend kinds" });
  const aromatic = chemical ? part.nodes.find(isAromatic) : null;
  const counts = () =>
    t(part.left ? "nodes_left" : "nodes_drawn", part.nodes.length, part.total.toLocaleString("en"), part.left);
  place.append(
    h("h2", { title: seen.path }, seen.title),
    field,
    h("div", { class: "legend kinds", hidden: chemical }, h("span", {}, t("classes")), kinds),
    widths,
    h(
      "p",
      { class: "legend" },
      sentences(
        t(chemical ? "halves_note" : "lines_note"),
        aromatic ? t("aromatic_note", aromatic.name) : "",
        chemical ? "" : counts(),
        t("numbers_left"),
      ),
    ),
  );
  const pairs = pairsOf(seen);
  const every = pairs.filter(({ q, k }) => q !== k);
  const own = new Float32Array(nodes.length);
  for (const { q, k, weight } of pairs) if (q === k) own[q] = weight;
  // a scale for all nodes of the head, whichever is looked at
  const most = Math.max(1e-9, ...every.map(({ weight }) => weight));
  const tallest = Math.min(TALLEST, field.clientHeight);
  // from here on it may be lower, and fills the height of what stands beside it
  field.classList.toggle("fills", chemical);
  /** @type {{ room: string, spots: number[][] }} */
  let pushed = { room: "", spots: [] };
  const placed = () => {
    if (!chemical) {
      const room = [field.clientWidth, field.clientHeight];
      // pushing takes long, and the places are the same whichever node is looked at
      if (pushed.room !== `${room}`) {
        const { spots } = stretched(part.nodes, room[0], room[1]);
        pushed = { room: `${room}`, spots: apart(spots, diameter(seen, 0), room) };
      }
      return { spots: pushed.spots, bond: 0 };
    }
    const width = field.clientWidth;
    field.style.minHeight = `${molecule(part.nodes, part.bonds, width, tallest).height}px`;
    const high = field.clientHeight;
    const most = Math.max(tallest, high);
    const { spots, bond, height } = molecule(part.nodes, part.bonds, width, most, { upright: high });
    return { spots: spots.map(([x, y]) => [x, y + Math.max(0, high - height) / 2]), bond };
  };
  /** @type {import("./edges.js").Numbered[]} */
  let numbers = [];
  let stood = "";
  const paint = () => {
    void state.dark.value;
    const now = focus(seen);
    const shown = every.filter(({ q }) => now < 0 || q === now);
    // a thin ring is seen too
    const rings = Array.from(own, (weight) =>
      state.loops.value ? 0 : Math.round(RING * weight) || Number(weight >= 0.02),
    );
    const { spots, bond } = placed();
    const size = diameter(seen, bond);
    nodes.forEach((node, at) => stand(node, spots[at], size));
    marked(nodes, shown, now, rings);
    const boxes = spots.map(([x, y], at) => [x, y, size / 2 + rings[at], size / 2 + rings[at]]);
    const room = [canvas.clientWidth, canvas.clientHeight];
    // numbers take long to place, and stay whichever node is looked at
    const framed = boxes.map(([x, y, half]) => [x, y, half + FRAME, half + FRAME]);
    const letters = Math.max(LETTERS[0], Math.min(LETTERS[1], bond / 10));
    if (stood !== (stood = `${room} ${boxes}`))
      numbers = bond >= NUMBERED ? numbersOf(part, spots, framed, room, letters) : [];
    draw(canvas, part, { spots, boxes, numbers, now, shown, most, band: chemical ? BAND : WIDEST, letters });
  };
  const sample = (/** @type {[number, string]} */ [at, text]) => {
    const line = h("span", { class: "width", "aria-hidden": "true" });
    line.style.height = `${Math.max(1, (chemical ? BAND : WIDEST) * at)}px`;
    return h("span", { class: "kind" }, line, text);
  };
  const ringed = (/** @type {[number, string]} */ [at, text]) => {
    const ring = h("span", { class: "ring", "aria-hidden": "true" });
    ring.style.boxShadow = `0 0 0 ${Math.round(RING * at * Math.max(...own))}px var(--ring)`;
    return h("span", { class: "kind" }, ring, text);
  };
  const legend = effect(() => {
    const widest = state.loops.value ? 0 : Math.max(...own);
    const rings = Math.round(RING * widest) ? ticks(widest, "linear").slice(-RINGS).map(ringed) : [];
    fill(
      widths,
      h("span", {}, t("line_width")),
      ticks(most, "linear").slice(1).slice(-SAMPLES).map(sample),
      rings.length ? [h("span", {}, t("ring_width")), ...rings] : [],
    );
  });
  const end = repainted(canvas, paint);
  return () => {
    legend();
    end();
    state.hovered.value = null;
  };
}

/** Whether a molecule is a long flat chain. @param {Seen["part"]["nodes"]} nodes */
function isLow(nodes) {
  const [across, down] = [nodes.map(({ x }) => x), nodes.map(({ y }) => y)].map(
    (all) => Math.max(...all) - Math.min(...all),
  );
  return nodes.length >= CHAIN && across >= FLAT * down;
}

/** @param {Seen} seen @param {number} number */
function dot(seen, number) {
  const one = seen.part.nodes[number];
  const chemical = state.reads() === "molecule";
  const fits = chemical || one.name.length <= SHORT;
  const title = `${one.name} (${classed(one.kind)})`;
  const button = h(
    "button",
    {
      class: "node",
      "aria-label": title,
      title,
      onpointerenter: () => (state.hovered.value = { q: number, k: -1 }),
      onpointerleave: () => (state.hovered.value = null),
      // Focus that moves into the list keeps the row.
      onblur: (/** @type {FocusEvent} */ { relatedTarget: to }) => {
        if (!(to instanceof Element && to.closest(".read"))) state.hovered.value = null;
      },
      onclick: () => {
        state.query.value = state.query.peek() === number ? -1 : number;
        state.key.value = -1;
      },
    },
    fits ? (chemical ? one.kind : one.name) : h("span", { class: "name" }, cut(one.name, BELOW)),
  );
  // carbon, of which a drawing is full, has no colour of its own
  if (chemical && one.kind === "C") return button;
  const [, colour] = /** @type {[string, string]} */ (seen.part.kinds.find(([kind]) => kind === one.kind));
  button.style.backgroundColor = colour;
  if (fits) button.style.setProperty("--name", lettersOn(colour));
  if (one.hop === 0 && seen.trace.places.chosen !== null) button.classList.add("middle");
  return button;
}

/** Pixels of a node. @param {Seen} seen @param {number} bond pixels of one, 0 where there is none */
function diameter({ part }, bond) {
  if (state.reads() === "molecule")
    return bond ? Math.max(SMALLEST, Math.min(Math.max(ATOM, 0.24 * bond), 0.5 * bond)) : ATOM;
  // all are as large as the longest name that stands inside
  const inside = part.nodes.filter(({ name }) => name.length <= SHORT);
  return Math.max(NODE, ...inside.map(({ name }) => wide(name) + (part.nodes.length > NAMED ? CLOSE : BESIDE)));
}

/** @param {HTMLElement} node @param {number[]} spot @param {number} size */
function stand({ style }, [x, y], size) {
  [style.left, style.top] = [`${x}px`, `${y}px`];
  style.setProperty("--size", `${size}px`);
}

/** @param {Seen} seen */
const pairsOf = ({ part, weights }) =>
  part.pairs.map(([q, k], edge) => ({ q, k, weight: weights[edge] })).sort((one, two) => two.weight - one.weight);

/**
 * The node that is looked at, those it attends to, and how much each attends to itself.
 * @param {HTMLElement[]} nodes
 * @param {Edge[]} shown of that node
 * @param {number} now
 * @param {number[]} rings pixels of each
 */
function marked(nodes, shown, now, rings) {
  const ends = new Set(shown.map(({ k }) => k));
  nodes.forEach((node, at) => {
    const heard = now < 0 || at === now || ends.has(at);
    node.classList.toggle("faint", !heard);
    node.classList.toggle("named", heard || nodes.length <= NAMED);
    node.classList.toggle("chosen", at === now);
    // all nodes are one stop of the tabulator, between which the arrows go
    node.tabIndex = at === Math.max(0, now) ? 0 : -1;
    // its frame stands round its ring
    node.style.outlineOffset = `${rings[at] + FRAME}px`;
    node.style.boxShadow = rings[at] && (now < 0 || at === now) ? `0 0 0 ${rings[at]}px var(--ring)` : "";
  });
}

/**
 * What one node attends to, or the strongest pairs of a molecule, in a sentence and as bars.
 * @param {HTMLElement} place @param {Seen} seen
 */
export function reading(place, seen) {
  const pairs = pairsOf(seen);
  const inner = h("div", {
    onfocusout: (/** @type {FocusEvent} */ { relatedTarget: to }) => {
      if (!(to instanceof Node && inner.contains(to))) state.hovered.value = null;
    },
  });
  place.append(inner, h("p", { class: "note" }, t("note")));
  let [shown, tallest] = ["", 0];
  return effect(() => {
    const now = focus(seen);
    const key = keyOf(seen, now);
    // a button that is pressed while the focus leaves a node stays where it is
    const next = `${now} ${key} ${state.loops.value} ${state.language.value}`;
    if (next === shown) return;
    const begun = shown !== "";
    shown = next;
    const focused = inner.contains(document.activeElement);
    fill(inner, ...row(seen, pairs, now, key));
    // below the drawing it may be out of sight, which the line at the foot never is
    const words = /** @type {Element} */ (inner.firstElementChild).textContent || "";
    if (innerWidth <= NARROW && begun) state.status.value = words;
    if (focused) /** @type {HTMLElement | null} */ (inner.querySelector(".on button, button"))?.focus();
    // what stands below it on a narrow screen keeps its place
    tallest = Math.max(tallest, Math.ceil(inner.getBoundingClientRect().height));
    inner.style.minHeight = `${tallest}px`;
  });
}

/** The node that a pair of the node that is looked at ends in, -1 for none. @param {Seen} seen @param {number} now */
function keyOf({ part }, now) {
  const { q, k } = state.hovered.value || { q: state.query.value, k: state.key.value };
  return now >= 0 && q === now && k < part.nodes.length ? k : -1;
}

/**
 * The words and bars of a node, and of a pair of it.
 * @param {Seen} seen @param {Edge[]} pairs from the largest weight on @param {number} now @param {number} key
 * @returns {any[]}
 */
function row(seen, pairs, now, key) {
  const { nodes } = seen.part;
  const name = (/** @type {number} */ at) => cut(nodes[at].name, 16);
  const to = (/** @type {number} */ q, /** @type {number} */ k) => (q === k ? t("itself") : name(k));
  const off = now < 0 || state.loops.value;
  const listed = pairs.filter(({ q, k }) => (now < 0 || q === now) && !(off && q === k));
  const at = key < 0 ? 0 : listed.findIndex(({ k }) => k === key);
  const first = listed[at];
  const rest = now < 0 ? null : undrawn(seen, now);
  if (!first && key < 0) return [h("p", {}, t(rest ? "none_drawn" : "alone")), rest];
  const lacks =
    key === now && state.loops.value ? "say_loop_hidden" : state.reads() === "molecule" ? "say_no_bond" : "say_no_edge";
  const say = first
    ? phrase("say_node", strong(name(first.q)), strong(percent(first.weight, 1)), strong(to(first.q, first.k)))
    : phrase(lacks, strong(name(now)), strong(name(key)));
  // the name of an atom begins with its element
  const kind = (/** @type {number} */ at) =>
    state.reads() === "molecule" ? "" : ` (${classed(cut(nodes[at].kind, 10))})`;
  const label = (/** @type {number} */ at) => {
    const { q, k } = listed[at];
    return now < 0 ? `${name(q)} → ${name(k)}` : `${to(q, k)}${q === k ? "" : kind(k)}`;
  };
  const weights = listed.map(({ weight }) => weight);
  const even = now < 0 ? spreading(seen) : null;
  const near = now >= 0 && isEven(seen, now);
  const most = even || near ? FEWER : ROWS;
  const press = (/** @type {number} */ at) =>
    batch(() => {
      state.hovered.value = null;
      state.lock(listed[at]);
    });
  return [
    h("p", { class: "say" }, say),
    even,
    near ? h("p", {}, t("nearly_even", nodes[now].heard)) : null,
    now >= 0 ? centring(seen, now) : null,
    h("h2", {}, now < 0 ? t("strongest_pairs") : phrase("row_of", h("bdi", {}, `${name(now)}${kind(now)}`))),
    shares(label, weights, [...weights.keys()], at, { most, full: weights[0] || 1, press }),
    weights.length > most ? h("p", { class: "legend" }, t("fewer", weights.length - most)) : null,
    rest,
    ...(now < 0 ? [] : measured(seen, now)),
  ];
}

/** What a node takes from neighbours that are not drawn. @param {Seen} seen @param {number} now */
function undrawn({ part, trace, weights }, now) {
  const all = Array.from(weights);
  const mine = all.filter((_, edge) => part.pairs[edge][0] === now);
  const count = part.nodes[now].heard - mine.length;
  // of a muted head no node takes anything
  if (count <= 0 || all.every((weight) => weight === 0)) return null;
  const rest = mine.reduce((left, weight) => left - weight, 1);
  const reached = trace.places.chosen !== null && state.hops.value < MOST_STEPS && !part.left;
  return h("p", { class: "legend" }, sentences(t("undrawn", percent(rest, 1), count), reached ? t("more_steps") : ""));
}

/** Whether a node spreads almost evenly. @param {Seen} seen @param {number} now */
function isEven({ part: { nodes }, entropy }, now) {
  const even = Math.log(Math.max(1, nodes[now].heard));
  return even > 0 && entropy[now] >= EVEN * even;
}

/** A way to put a node in the middle. @param {Seen} seen @param {number} now */
function centring({ part: { nodes }, trace }, now) {
  const { hop, name } = nodes[now];
  if (trace.places.chosen === null || !hop) return null;
  return h("button", { class: "asks", onclick: () => state.give({ text: name }) }, t("centre"));
}

/** How evenly a node spreads. @param {Seen} seen @param {number} now */
function measured({ part: { nodes }, entropy }, now) {
  const { heard } = nodes[now];
  const nats = (/** @type {number} */ value) => `${value.toFixed(2)} ${t("nats")}`;
  const even = Math.log(Math.max(1, heard));
  return [h("dl", { class: "facts" }, fact("entropy", nats(entropy[now])), fact("even", nats(even)))];
}

/** How many atoms spread almost evenly, and those that choose where they are few. @param {Seen} seen */
function spreading({ part: { nodes, pairs }, weights }) {
  const most = new Float32Array(nodes.length);
  const neighbours = new Uint32Array(nodes.length);
  pairs.forEach(([q, k], edge) => {
    most[q] = Math.max(most[q], weights[edge]);
    if (q !== k) neighbours[q] += 1;
  });
  const heard = [...nodes.keys()].filter((at) => nodes[at].heard > 1);
  const choosing = heard.filter((at) => most[at] >= 1 / nodes[at].heard + POINTS / 100);
  if (!heard.length || choosing.length > heard.length / 2) return null;
  const ends = choosing.every((at) => neighbours[at] === 1);
  const named = choosing.length && choosing.length <= NAMES;
  const names = choosing.map((at) => nodes[at].name).join(", ");
  return h(
    "p",
    {},
    sentences(
      t("say_spread", heard.length - choosing.length, heard.length, POINTS),
      named ? t(ends ? "say_ends" : "say_others", names) : "",
    ),
  );
}
