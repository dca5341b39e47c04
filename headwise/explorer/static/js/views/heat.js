// @ts-check
/** The large map of one head: labels on both sides, the number under the pointer, a cell that can be locked. */

import { coloursOf, density } from "../core/canvas.js";
import { h } from "../dom.js";
import { batch, effect } from "../store.js";
import { holding } from "../core/folding.js";
import { LARGEST, NUMERALS, fit } from "../core/fit.js";
import { marked, numbered, painted, parted, seamed, windowed } from "../core/heatmap.js";
import { apart, cut, number } from "../core/text.js";
import { blocksAt, cellAt, showing } from "../core/zoom.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { sidesOf } from "../titles.js";
import * as axis from "./axis.js";
import * as legend from "./legend.js";
import * as zooming from "./zooming.js";

/** Pixels to the right of a map. */
const SPARE = 16;
/** Pixels of a cell that a finger misses. */
const SMALL = 6;
/** Pixels below the cells: the legend, the padding of the panel, the line that tells of a cell. */
const BELOW = 96;
/** Pixels of a panel beside a map and its labels, of a legend, and of the widest reading beside a map. */
const [FRAMED, LEGEND, READING] = [72, 410, 480];
/** Letters of a token beside its number. */
const LETTERS = 60;
/** Pixels that the longer title of an axis needs. */
const WRITTEN = 190;
/** Pixels of a cell below which a map rather takes the place of its legend on the screen. */
const READABLE = 6;
/** Most pixels of a map that need not fit; the least height on a screen; on one so narrow, which scrolls, the share. */
const [TALLEST, LOWEST, NARROW, SHARE] = [560, 200, 700, 0.6];
/** Rows whose numbers are worth a page that scrolls, and pixels that they take of it, at most. */
const [FEW, ROOM] = [32, 660];
/** Pixels below which a cell is narrow, and of a row of narrow cells at most. */
const [LOW, HIGH] = [14, 24];
/** Pixels of a row below curves, of their key. */
const [SHORT, KEY] = [11, 60];

/**
 * `rows`, `columns`: the tokens of each, where these are not one each; `scores` are signed; `fitsScreen`: all of it is
 * seen at once, with `more` rows to come; `seam`: rows before those that the model wrote; `key`: words for what stands
 * beside it; `every`: columns of a row of patches; `short`: labels of many tokens are; `quantity`, `sides`: what it is
 * of, if not attention; `since`: positions before the first row; `spoken`: the cell of the sentence above.
 * @typedef {{ weights: Float32Array, group: state.Group, title: string, rows?: number[][], columns?: number[][],
 * scores?: boolean, fitsScreen?: boolean, more?: number, seam?: number, key?: string, every?: number, short?: boolean,
 * quantity?: string, sides?: { from: string, to: string }, absent?: legend.Absent, since?: number,
 * spoken?: () => { q: number, k: number } }} Head
 */

/**
 * @param {HTMLElement} place
 * @param {Head & { beside?: ReturnType<typeof import("./sound.js").beside> | null }} head @returns {() => void}
 */
export function mount(place, head) {
  const { weights, group } = head;
  const [rows, columns] = [group.queries.length, group.keys.length];
  const canvas = h("canvas", { class: "heat", tabindex: 0, role: "img" });
  const tip = h("div", { class: "tip", hidden: true });
  const [left, top, sides] = [h("div"), h("div"), { top: h("div"), left: h("div") }];
  const cell = h("div", { class: "cells" }, canvas, tip);
  const [from, to] = [h("div", { class: "axis-title" }), h("div", { class: "axis-title" })];
  const note = h("p", { class: "legend folded", role: "status", hidden: true });
  place.append(
    note,
    h(
      "div",
      { class: "frame titled" },
      h("div"),
      h("div"),
      to,
      h("div"),
      h("div"),
      h("div", {}, top, sides.top),
      from,
      h("div", { class: "beside" }, left, sides.left),
      cell,
    ),
  );
  /** Whether rows that the model wrote can be seen. @param {number} side pixels of a row */
  const written = (side) => Boolean(head.seam && (rows - head.seam) * side >= READABLE);
  const heard = head.beside ? head.beside(sides) : null;
  const margin = roomOf(head)(group.queries, head.since) + 16;
  const shared = /** @type {HTMLElement | null} */ (place.closest(".attend"));
  shared?.style.removeProperty("--read");
  const { bounds, turn, band } = boundsOf(head, place, canvas, margin);
  const labelled = [
    axis.mount(left, group.queries, "rows", margin, head),
    axis.mount(top, group.keys, turn, band, { ...head, since: 0 }),
  ];
  cell.style.width = `${bounds.width}px`;
  cell.style.height = `${bounds.height}px`;
  if (shared) spared(shared, place, margin + bounds.width);
  const names = head.sides || sidesOf(group);
  const whole = t(names.from);
  // a long title would be higher than a low map: what the rows are says most; of a single row its label says it
  from.textContent = rows < 2 ? "" : bounds.height < WRITTEN ? whole.split(/: |：/).slice(-1)[0] : whole;
  to.textContent = t(names.to);
  const zoomed = zooming.mount(canvas, bounds);
  const small = Math.max(rows, columns) > zooming.FROM ? zooming.minimap(bounds) : null;
  const lines = () => [
    written(bounds.tall || bounds.least) ? t("seam") : "",
    head.key ? t(head.key) : "",
    bounds.least < SMALL ? t(matchMedia("(pointer: coarse)").matches ? "enlarge_touch" : "enlarge") : "",
  ];
  const explain = legend.mount(place, small && small.node, () => lines().filter(Boolean).join(" · "));
  /** Pictures by the rows and columns that a cell stands for. @type {Record<string, import("./blocks.js").Blocks>} */
  let pictures = {};
  let inBlocks = /** @type {typeof import("./blocks.js") | null} */ (null);
  let how = /** @type {legend.Shading | null} */ (null);
  const backdrop = document.createElement("canvas");
  let [frameAsked, stale, mounted, alive] = [0, true, false, true];
  pointed(canvas, head, bounds, zoomed.dragged);
  const strip = /** @type {HTMLCanvasElement | null} */ (sides.top.querySelector(".strip-of-sound"));
  if (strip) pointed(strip, head, bounds, () => false, true);

  const paint = () => {
    frameAsked = 0;
    const window = zooming.now(bounds);
    if (stale && how) {
      stale = false;
      const [down, across] = blocksAt(window, rows, columns);
      const many = down * across > 1 && inBlocks;
      const picture = (pictures[many ? `${down} ${across}` : ""] ||= many
        ? many.inCells(how, rows, columns, [down, across], Boolean(head.scores))
        : { canvas: painted(how.cells, rows, columns, how.name), entries: how.cells, columns });
      backed(backdrop, canvas, picture, how, window, rows, columns);
      if (inBlocks) inBlocks.said(note, [down, across], window, bounds);
      if (written(window.tall || window.side))
        seamed(backdrop, Number(head.seam), dotted(window), getComputedStyle(canvas).color);
      if (heard) heard(window, bounds, head.scores ? null : rowOf(head));
    }
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(backdrop, 0, 0);
    const at = state.hovered.peek();
    const now = at || head.spoken?.() || chosen(head);
    labelled[0](window, bounds.height, now.q);
    labelled[1](window, bounds.width, now.k);
    marked(canvas, now, dotted(window));
    tipped(tip, at, head, window);
  };
  const soon = () => {
    if (!frameAsked) frameAsked = requestAnimationFrame(paint);
  };
  const again = () => {
    stale = true;
    soon();
  };
  // where not every column has a dot of the screen
  if (blocksAt({ x: 0, y: 0, side: bounds.least }, rows, columns)[1] > 1)
    import("./blocks.js").then((blocks) => {
      // it may come after the map has gone, which then has no size
      if (!alive) return;
      inBlocks = blocks;
      note.hidden = false;
      again();
    });
  const ends = [
    effect(() => {
      how = legend.shading(head);
      pictures = {};
      if (small) small.put(how.cells, how.name);
      explain(how, weights, zooming.now(bounds).side >= NUMERALS);
      canvas.setAttribute("aria-label", summary(head));
      again();
    }),
    effect(() => {
      void state.hovered.value;
      soon();
    }),
    effect(() => {
      void [state.cell(), state.span.value];
      again();
    }),
    // a cell is seen when it is locked; a window that was moved away stays where it is from head to head
    effect(() => {
      const cell = chosen(head);
      if (mounted || state.span.peek().times === 1) zooming.put(showing(zooming.now(bounds), bounds, cell), bounds);
      mounted = true;
    }),
  ];
  // nobody sees a map without its labels
  cancelAnimationFrame(frameAsked);
  paint();
  return () => {
    alive = false;
    ends.forEach((end) => end());
    zoomed.end();
    if (small) small.end();
    cancelAnimationFrame(frameAsked);
    state.hovered.value = null;
  };
}

/**
 * What a small map leaves of its panel is for the reading beside it.
 * @param {HTMLElement} shared @param {HTMLElement} place @param {number} taken pixels of the map with its labels
 */
export function spared(shared, place, taken) {
  const read = /** @type {HTMLElement | null} */ (shared.querySelector(":scope > .read"));
  const spare = place.clientWidth - FRAMED - Math.max(taken, LEGEND);
  if (read && spare > 0) shared.style.setProperty("--read", `${Math.min(READING, read.offsetWidth + spare)}px`);
}

/**
 * Follows the pointer: what is under it is hovered, a click that is no drag locks it.
 * @param {HTMLCanvasElement} canvas @param {Head} head @param {import("../core/zoom.js").Bounds} bounds @param {() =>
 * boolean} dragged @param {boolean} [above] whether it stands above the map, of whose chosen row it has the columns
 */
function pointed(canvas, head, bounds, dragged, above = false) {
  const under = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    const place = { x: event.clientX - box.left, y: above ? 0 : event.clientY - box.top };
    const at = cellAt(zooming.now(bounds), bounds, place);
    return at && above ? { q: Math.max(0, chosen(head).q), k: at.k } : at;
  };
  canvas.addEventListener("pointermove", (event) => {
    state.hovered.value = same(state.hovered.peek(), under(event));
  });
  canvas.addEventListener("pointerleave", () => {
    state.hovered.value = null;
  });
  canvas.addEventListener("click", (event) => {
    const at = dragged() ? null : under(event);
    if (at) choose(at, head);
  });
}

/** The weights of the chosen row, forbidden ones as none; null where no row is. @param {Head} head */
function rowOf(head) {
  const [{ q }, columns] = [chosen(head), head.group.keys.length];
  return q < 0 ? null : head.weights.slice(q * columns, (q + 1) * columns).map((weight) => Math.max(0, weight));
}

/** The window in dots of the screen. @param {import("../core/zoom.js").Window} window */
const dotted = ({ x, y, side, tall = side }) => {
  const dots = density();
  return { x, y, side: side * dots, tall: tall * dots };
};

/**
 * What stands behind the marks of cells, as large as the canvas is seen.
 * @param {HTMLCanvasElement} backdrop @param {HTMLCanvasElement} canvas @param {import("./blocks.js").Blocks} picture
 * @param {legend.Shading} how @param {import("../core/zoom.js").Window} window @param {number} rows
 * @param {number} columns
 */
function backed(backdrop, canvas, picture, how, window, rows, columns) {
  const dots = density();
  const [width, height] = [Math.round(canvas.clientWidth * dots), Math.round(canvas.clientHeight * dots)];
  for (const one of [backdrop, canvas]) [one.width, one.height] = [width, height];
  const { x, y, side, tall = side } = dotted(window);
  // the last block may stand for fewer cells, and is as large
  const [across, down] = [columns / picture.columns, rows / picture.canvas.height];
  const blocks = { x: x / across, y: y / down, side: side * across, tall: tall * down };
  windowed(backdrop, picture.canvas, picture.entries, blocks, picture.columns);
  parted(backdrop, dotted(window), coloursOf(canvas, "--panel")[0]);
  if (window.side >= NUMERALS) numbered(backdrop, dotted(window), rows, columns, how.numeral);
}

/**
 * A cell of tokens as a row and a column; -1 where it is not among them.
 * @param {{ rows?: number[][], columns?: number[][] }} head
 * @param {{ q: number, k: number }} cell
 */
const placed = ({ rows, columns }, { q, k }) => ({
  q: rows ? holding(rows, q) : q,
  k: columns ? holding(columns, k) : k,
});

/** @param {{ rows?: number[][], columns?: number[][] }} head */
export const locked = (head) => placed(head, { q: state.query.value, k: state.key.value });

/** The locked cell, else that with the largest weight. @param {{ rows?: number[][], columns?: number[][] }} head */
export const chosen = (head) => placed(head, state.cell());

/**
 * A cell so many rows and columns from another, or at the edge.
 * @param {{ q: number, k: number }} cell @param {number[]} by @param {{ queries: any[], keys: any[] }} sides
 */
export function moved({ q, k }, [down, across], { queries, keys }) {
  const within = (/** @type {number} */ at, /** @type {any[]} */ side) => Math.max(0, Math.min(side.length - 1, at));
  return { q: within(q + down, queries), k: within(k + across, keys) };
}

/** What measures labels. @param {Head} head */
const roomOf = (head) => (head.short ? axis.shortest : axis.longest);

/** The row that is looked at: under the pointer, else the chosen one. @param {Head} head */
export const lookedAt = (head) => (state.hovered.value ? state.hovered.value.q : chosen(head).q);

/**
 * Locks a cell, a query or a key, and says what it holds; -1 for none.
 * @param {{ q: number, k: number }} cell @param {Head} head
 */
export function choose({ q, k }, head) {
  const { rows, columns } = head;
  batch(() => {
    state.query.value = rows && q >= 0 ? rows[q][0] : q;
    state.key.value = columns && k >= 0 ? columns[k][0] : k;
  });
  state.say(told(q, k, head), Boolean(head.spoken || document.querySelector(".attend > .read:not([hidden]) .say")));
}

/** @param {number} q @param {number} k @param {Head} head */
const told = (q, k, { weights, group, absent, since }) =>
  sentence(q, k, weights[q * group.keys.length + k], group, absent, since);

/**
 * What the line at the foot says of a token or a cell.
 * @param {number} q @param {number} k @param {number} value @param {state.Group} group @param {legend.Absent} [absent]
 * @param {number} [since] positions before the first row
 */
export function sentence(q, k, value, group, absent, since = 0) {
  const name = (/** @type {string} */ label) => cut(label, LETTERS);
  const [from, to] = [q < 0 ? "" : apart(group.queries, name, since)(q), k < 0 ? "" : apart(group.keys, name)(k)];
  if (!from || !to) return from || to;
  const weight = value === -Infinity ? legend.lacking(absent, q * group.keys.length + k) : number(value);
  return `${from} → ${to} ${weight}`;
}

/**
 * Places a tip beside a cell, to its left where it would be cut.
 * @param {HTMLElement} tip @param {number} from the left edge of the cell @param {number} side pixels of the cell
 */
export function tipAt(tip, from, side) {
  const box = /** @type {HTMLElement} */ (tip.parentElement);
  const [left, width] = [from + side + 6, tip.offsetWidth];
  const flips = box.getBoundingClientRect().left + left + width > globalThis.innerWidth - 8;
  tip.style.left = `${flips ? Math.max(-box.offsetLeft, from - width - 6) : left}px`;
}

/**
 * @param {HTMLElement} tip
 * @param {{ q: number, k: number } | null} at
 * @param {Head} head @param {import("../core/zoom.js").Window} window
 */
function tipped(tip, at, head, { x, y, side, tall = side }) {
  // a row may be looked at without any of its cells
  tip.hidden = !at || at.k < 0;
  if (!at || at.k < 0) return;
  tip.textContent = told(at.q, at.k, head);
  tipAt(tip, (at.k - x) * side, side);
  tip.style.top = `${(at.q - y) * tall}px`;
}

/**
 * Pixels that a map may be wide, and those above it.
 * @param {HTMLElement} place @param {HTMLElement} canvas @param {number} margin what the labels of rows take
 */
export function roomAt(place, canvas, margin) {
  const [inside, outside] = [canvas, place].map((node) => node.getBoundingClientRect());
  const width = Math.max(64, place.clientWidth - (inside.left - outside.left) - margin - SPARE);
  return { width, above: inside.top + globalThis.scrollY };
}

/**
 * How large a map and its cells are: all of it is seen at first, as far as a cell has a pixel.
 * @param {Head} head @param {HTMLElement} place @param {HTMLElement} canvas @param {number} margin what the labels of
 * rows take
 */
function boundsOf(head, place, canvas, margin) {
  const { group, fitsScreen, more = 0 } = head;
  const [rows, columns] = [group.queries.length, group.keys.length];
  const { width, above } = roomAt(place, canvas, margin);
  const label = roomOf(head)(group.keys);
  const left = globalThis.innerHeight - above;
  const few = rows <= FEW ? Math.min(ROOM, (head.key ? SHORT : NUMERALS) * rows + label + 24) : LOWEST;
  const least = globalThis.innerWidth < NARROW ? SHARE * globalThis.innerHeight : few;
  const height = fitsScreen
    ? Math.max(
        least,
        left - BELOW - (head.key ? KEY : 0),
        head.key ? 0 : Math.min(left - SPARE, READABLE * rows + label + 10),
      )
    : TALLEST + label + 10;
  const { side, turn, band } = fit({
    rows: rows + more,
    columns,
    width,
    height,
    label,
    most: LARGEST,
  });
  // cells need not be square
  const tall = side < LOW ? Math.max(side, Math.min(HIGH, LOWEST / rows)) : side;
  const size = {
    width: Math.min(width, side * columns),
    height: Math.min(Math.max(LOWEST, height - band), tall * rows),
  };
  return { bounds: { rows, columns, ...size, least: side, most: LARGEST, tall: tall > side ? tall : 0 }, turn, band };
}

/** Where the largest numbers are, the largest first. @param {ArrayLike<number>} values @param {number} most */
function strongest(values, most) {
  /** @type {number[]} */
  const found = [];
  for (let at = 0; at < values.length; at += 1) {
    // most are smaller than all that are kept
    if (found.length === most && values[at] <= values[found[most - 1]]) continue;
    let before = found.length;
    while (before > 0 && values[found[before - 1]] < values[at]) before -= 1;
    found.splice(before, 0, at);
    if (found.length > most) found.pop();
  }
  return found;
}

/** @param {Head} head */
function summary(head) {
  const columns = head.group.keys.length;
  const pairs = strongest(head.weights, 3).map((at) => told(Math.floor(at / columns), at % columns, head));
  return `${head.title}: ${pairs.join("; ")}`;
}

/** The one before where nothing has changed, so that nothing is drawn again. @param {any} before @param {any} now */
const same = (before, now) => (before && now && before.q === now.q && before.k === now.k ? before : now);
