// @ts-check
/**
 * The map of a long input: blocks in place of cells, as large as the zoom needs, down to exact
 * weights; the row of any query exactly.
 */

import { coloursOf, density } from "../core/canvas.js";
import { getJson, getNumbers, query } from "../api.js";
import { entries, letters, ramp } from "../core/color.js";
import { NUMERALS } from "../core/fit.js";
import { marked, numbered, painted, parted } from "../core/heatmap.js";
import { apart, cut, number, share } from "../core/text.js";
import { cellAt, showing } from "../core/zoom.js";
import { fill, h } from "../dom.js";
import { effect } from "../store.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { headTitle, sidesOf } from "../titles.js";
import * as axis from "./axis.js";
import { chosen, tipAt, roomAt, spared } from "./heat.js";
import * as legend from "./legend.js";
import * as reading from "./reading.js";
import { Rows, opening, openingRow } from "./rows.js";
import { BARS } from "./shares.js";
import * as zooming from "./zooming.js";
import { WORDS } from "../words/long.js";

learn(WORDS);

/** Pixels below the cells, of the lowest map, of the largest cell; letters of a token in a sentence. */
const [BELOW, LOWEST, LARGEST, LETTERS] = [96, 240, 58, 40];
/** Pixels of a square that marks one weight of the row that is read. */
const SEEN = 8;
/** Tiles whose pictures are kept. */
const MOST_TILES = 64;

/**
 * `tops`: the largest mean of blocks of 1, 2, 4 ... weights, the largest weight, and that of the later half of rows;
 * `hidden`: a mask forbids blocks
 * @typedef {{ block: number, side: number, tops: { mean: number[], max: number, later: number }, hidden: boolean,
 * largest: { q: number, k: number, weight: number } }} Overview
 */
/** @typedef {{ values: Float32Array, rows: number, columns: number, picture: HTMLCanvasElement, look: string }} Tile */

/**
 * @param {HTMLElement} node @param {HTMLElement} read where the chosen cell is read
 * @param {state.Trace} trace @param {state.Group} group @param {() => boolean} alive
 */
export async function mount(node, read, trace, group, alive) {
  const { at, layer, head } = state.place(group);
  const path = `/api/v1/traces/${trace.trace_id}`;
  const overview = /** @type {Overview} */ (await getJson(`${path}/overview?${query({ layer, head })}`));
  if (!alive()) return () => {};
  const title = headTitle(group, at, head);
  const rows = new Rows(path, layer, head);
  state.strongest.value = await opening(rows, trace, async () =>
    // its first rows choose between few keys
    group.causal ? openingRow(rows, group) : overview.largest,
  );
  if (!alive()) return () => {};
  // nodes that are numbers have these names everywhere
  const start = Number(trace.axes[group.name].keys.kind !== "nodes" || group.keys[0] !== "0");
  const map = new LongMap({ path, layer, head, group, overview, title, rows, start });
  fill(node, h("div", { class: "heading" }, h("h2", { title: layer }, title), hows()));
  fill(read);
  const place = h("div");
  node.append(place);
  const ends = [await map.mount(place), reading.mount(read, { group, row: rows.at }, trace, group)];
  document.documentElement.dataset.ready = `${group.name}/${at}/${head}/long`;
  return () => ends.forEach((end) => end());
}

/** Largest weights or means. */
function hows() {
  const button = (/** @type {string} */ how) =>
    h(
      "button",
      {
        class: () => (state.pooled.value === how ? "tab chosen" : "tab"),
        "aria-pressed": () => String(state.pooled.value === how),
        onclick: () => (state.pooled.value = how),
      },
      () => t(how ? "blocks_mean" : "blocks_max"),
    );
  return h("span", { class: "seg" }, button(""), button("mean"));
}

class LongMap {
  /** @type {import("../core/zoom.js").Bounds} */
  bounds = { rows: 0, columns: 0, width: 0, height: 0, least: 0, most: 0 };
  /** What the legend and the note tell of. */
  legended = "";
  canvas = h("canvas", { class: "heat long", tabindex: 0, role: "img" });
  tip = h("div", { class: "tip", hidden: true });
  note = h("p", { class: "legend folded", role: "status" });
  /** Of rows and of columns. @type {ReturnType<typeof axis.mount>[]} */
  labelled = [];
  /** @type {Map<string, Tile | null>} null while it comes */
  tiles = new Map();
  frame = 0;
  alive = true;
  /** @type {(tile: Tile) => void} */
  shrink = () => {};
  /** @type {ReturnType<typeof legend.mount>} */
  explain = () => {};

  /**
   * @param {{ path: string, layer: string, head: number, group: state.Group, overview: Overview, title: string, rows:
   * Rows, start: number }} of `start`: the first number of a place
   */
  constructor({ path, layer, head, group, overview, title, rows, start }) {
    this.group = group;
    this.start = start;
    this.overview = overview;
    this.title = title;
    this.rows = rows;
    this.asked = (/** @type {Record<string, any>} */ part) => `${path}/tile?${query({ layer, head, ...part })}`;
  }

  /** @param {HTMLElement} place */
  async mount(place) {
    const { group, canvas } = this;
    const [left, top, cells] = [h("div"), h("div"), h("div", { class: "cells" }, canvas, this.tip)];
    const sides = sidesOf(group);
    const [from, to] = [sides.from, sides.to].map((side) => h("div", { class: "axis-title" }, t(side)));
    const beside = h("div", { class: "beside" }, left);
    place.append(
      this.note,
      h("div", { class: "frame titled" }, h("div"), h("div"), to, h("div"), h("div"), top, from, beside, cells),
    );
    // it takes its lines before the map takes what is left
    this.note.textContent = this.stood(this.overview.block);
    const margin = axis.longest(group.queries) + 16;
    const band = axis.longest(group.keys) + 10;
    this.bounds = boundsOf(group, place, canvas, margin, band);
    this.labelled = [
      axis.mount(left, group.queries, "rows", margin, { counted: true }),
      axis.mount(top, group.keys, "upright", band, { counted: true }),
    ];
    cells.style.width = `${this.bounds.width}px`;
    cells.style.height = `${this.bounds.height}px`;
    const panel = /** @type {HTMLElement | null} */ (place.closest(".attend > .wide"));
    if (panel) spared(/** @type {HTMLElement} */ (panel.parentElement), panel, margin + this.bounds.width);
    const zoomed = zooming.mount(canvas, this.bounds);
    const small = zooming.minimap(this.bounds);
    this.shrink = ({ values, rows, columns }) => {
      const cells = entries(values, this.top(this.overview.block), /** @type {any} */ (state.scale.value));
      small.put(cells, state.inks(), rows, columns);
    };
    this.explain = legend.mount(place, small.node);
    this.pointed(zoomed.dragged);
    // the whole map is there before anything finer
    await this.load(this.overview.block, 0, 0);
    let mounted = false;
    const ends = [
      effect(() => {
        void [state.dark.value, state.scale.value, state.pooled.value, state.language.value];
        this.shaded();
        this.soon();
      }),
      effect(() => {
        void [state.hovered.value, state.cell(), state.span.value, this.rows.latest.value];
        this.soon();
      }),
      effect(() => {
        const cell = state.cell();
        if (mounted) zooming.put(showing(zooming.now(this.bounds), this.bounds, cell), this.bounds);
        mounted = true;
      }),
    ];
    this.paint();
    return () => {
      this.alive = false;
      ends.forEach((end) => end());
      zoomed.end();
      small.end();
      cancelAnimationFrame(this.frame);
      state.hovered.value = null;
    };
  }

  soon() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.paint());
  }

  /** Weights that a cell of the map stands for, on each side, at a zoom. @param {number} side pixels of a weight */
  blockAt(side) {
    let block = 1;
    while (block * side < 1 && block < this.overview.block) block *= 2;
    return block;
  }

  /** The number at the end of the ramp. @param {number} block */
  top(block) {
    const { later } = this.overview.tops;
    // the first rows of a causal head choose between few keys: their large weights would leave the others pale
    return this.group.causal && later > 0 ? Math.min(later, this.largest(block)) : this.largest(block);
  }

  /** The largest of all blocks. @param {number} block */
  largest(block) {
    const { mean, max } = this.overview.tops;
    return state.pooled.value && block > 1 ? mean[Math.log2(block)] : max;
  }

  /** What tells pictures of a tile apart. */
  look() {
    return [state.dark.value, state.scale.value, state.pooled.value].join();
  }

  /** The legend and the small map, of the colours and the kind of block as they are now. */
  shaded() {
    const { block } = this.overview;
    this.load(block, 0, 0).then((tile) => {
      if (!tile || !this.alive) return;
      this.shrink(tile);
      this.soon();
    });
  }

  /**
   * A tile, painted; null where it cannot be had.
   * @param {number} block @param {number} down @param {number} across @returns {Promise<Tile | null>}
   */
  async load(block, down, across) {
    const how = state.pooled.value || "max";
    const key = this.key(block, down, across);
    const known = this.tiles.get(key);
    if (known && known.look === this.look()) return known;
    this.tiles.set(key, known || null);
    try {
      const { shape, data } = await getNumbers(this.asked({ block, how: block > 1 ? how : "max", down, across }));
      const [rows, columns] = shape;
      const values = /** @type {Float32Array} */ (data);
      const shares = entries(values, this.top(block), /** @type {any} */ (state.scale.value));
      const tile = { values, rows, columns, picture: painted(shares, rows, columns, state.inks()), look: this.look() };
      this.tiles.delete(key);
      this.tiles.set(key, tile);
      for (const name of this.tiles.keys()) {
        if (this.tiles.size <= MOST_TILES) break;
        this.tiles.delete(name);
      }
      return tile;
    } catch (error) {
      this.tiles.delete(key);
      state.failed(/** @type {Error} */ (error));
      return null;
    }
  }

  /** @param {number} block @param {number} down @param {number} across */
  key(block, down, across) {
    return [block, block > 1 ? state.pooled.value : "", down, across].join();
  }

  /** The tiles of blocks of this size that a window shows. @param {number} block */
  *within(block) {
    const { x, y, side } = zooming.now(this.bounds);
    const [size, { width, height, rows, columns }] = [block * this.overview.side, this.bounds];
    const [right, bottom] = [Math.min(columns, x + width / side), Math.min(rows, y + height / side)];
    for (let down = Math.floor(y / size); down * size < bottom; down += 1)
      for (let across = Math.floor(x / size); across * size < right; across += 1) yield [down, across];
  }

  paint() {
    this.frame = 0;
    const [window, { canvas, bounds }] = [zooming.now(this.bounds), this];
    const dots = density();
    const size = [canvas.clientWidth, canvas.clientHeight].map((length) => Math.round(length * dots));
    if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
    const context = canvas.getContext("2d");
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.imageSmoothingEnabled = false;
    const block = this.blockAt(window.side);
    const complete = this.drawn(context, this.overview.block, window, dots) && this.fine(context, block, window, dots);
    const at = state.hovered.peek();
    const cell = at || chosen({});
    this.labelled[0](window, bounds.height, cell.q);
    this.labelled[1](window, bounds.width, cell.k);
    const blocks = { x: window.x / block, y: window.y / block, side: window.side * block * dots };
    if (block === 1) this.cells(window, dots);
    const [q, k] = [cell.q, cell.k].map((one) => (one < 0 ? -1 : Math.floor(one / block)));
    marked(canvas, { q, k }, blocks);
    this.strong(context, chosen({}).q, window, dots);
    this.tipped(at, block, window);
    this.said(block, complete);
  }

  /**
   * The largest weights of the row that is read, as squares that can be seen however small its cells are.
   * @param {CanvasRenderingContext2D} context @param {number} q @param {any} window @param {number} dots
   */
  strong(context, q, { x, y, side }, dots) {
    const latest = this.rows.latest.peek();
    if (!latest || latest.q !== q || side >= SEEN) return;
    const { row } = latest;
    const order = Array.from(row.keys()).filter((k) => row[k] > 0);
    const size = SEEN * dots;
    context.strokeStyle = coloursOf(this.canvas, "--mark")[0];
    context.lineWidth = 1.5 * dots;
    for (const k of order.sort((one, two) => row[two] - row[one]).slice(0, BARS)) {
      const [entry] = entries([row[k]], this.top(1), /** @type {any} */ (state.scale.value));
      context.fillStyle = `rgb(${ramp(state.inks())
        .slice(4 * entry, 4 * entry + 3)
        .join()})`;
      const [left, top] = [(k + 0.5 - x) * side * dots - size / 2, (q + 0.5 - y) * side * dots - size / 2];
      context.fillRect(left, top, size, size);
      context.strokeRect(left, top, size, size);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} block @param {any} window @param {number} dots */
  fine(context, block, window, dots) {
    return block === this.overview.block || this.drawn(context, block, window, dots);
  }

  /**
   * Draws the tiles of a size of block that are there, and asks for the others; whether all are.
   * @param {CanvasRenderingContext2D} context @param {number} block @param {any} window @param {number} dots
   */
  drawn(context, block, { x, y, side }, dots) {
    let complete = true;
    const size = block * this.overview.side;
    for (const [down, across] of this.within(block)) {
      const key = this.key(block, down, across);
      const tile = this.tiles.get(key);
      if (tile === undefined || (tile && tile.look !== this.look()))
        this.load(block, down, across).then(() => this.alive && this.soon());
      complete = complete && Boolean(tile);
      if (!tile) continue;
      const [left, top] = [(across * size - x) * side * dots, (down * size - y) * side * dots];
      const each = side * block * dots;
      // a cell at an end stands for fewer weights
      const [width, height] = [tile.columns * each, tile.rows * each];
      context.drawImage(tile.picture, left, top, width, height);
    }
    return complete;
  }

  /** Lines between cells, and their numbers, where there is room. @param {any} window @param {number} dots */
  cells(window, dots) {
    const dotted = { ...window, side: window.side * dots };
    parted(this.canvas, dotted, coloursOf(this.canvas, "--panel")[0]);
    if (window.side < NUMERALS) return;
    const { rows, columns } = this.bounds;
    const scale = /** @type {any} */ (state.scale.value);
    const numeral = (/** @type {number} */ place) => {
      const weight = this.value(1, Math.floor(place / columns), place % columns);
      if (weight === null || weight === -Infinity) return null;
      const [entry] = entries([weight], this.top(1), scale);
      return { text: share(weight), colour: letters(state.inks(), entry) };
    };
    numbered(this.canvas, dotted, rows, columns, numeral);
  }

  /** The number of the block that holds a cell; null where it has not come. @param {number} block @param {number} q
   * @param {number} k */
  value(block, q, k) {
    const { side } = this.overview;
    const [row, column] = [Math.floor(q / block), Math.floor(k / block)];
    const tile = this.tiles.get(this.key(block, Math.floor(row / side), Math.floor(column / side)));
    return tile ? tile.values[(row % side) * tile.columns + (column % side)] : null;
  }

  /** @param {{ q: number, k: number } | null} at @param {number} block @param {any} window */
  tipped(at, block, { x, y, side }) {
    const { tip, group } = this;
    tip.hidden = !at;
    if (!at) return;
    const value = this.value(block, at.q, at.k);
    const told = value === null ? "…" : value === -Infinity ? legend.lacking() : number(value);
    const [from, to] = [
      [group.queries, at.q],
      [group.keys, at.k],
    ].map(([labels, place]) => stretch(/** @type {string[]} */ (labels), Number(place), block, this.start));
    const kind = block > 1 ? `${t(state.pooled.value ? "block_mean" : "block_max")} ` : "";
    tip.textContent = `${from} → ${to} ${kind}${told}`;
    tipAt(tip, (at.k - x) * side, side);
    tip.style.top = `${(at.q - y) * side}px`;
  }

  /** What a cell of the map is. @param {number} block */
  stood(block) {
    const size = [this.group.queries, this.group.keys].map(({ length }) => length.toLocaleString("en")).join(" × ");
    return `${shownOf(block)} ${t(block > 1 ? "long_of" : "long_row", size)}`;
  }

  /** What is shown, in words; the bar of colours. @param {number} block @param {boolean} complete */
  said(block, complete) {
    const text = `${this.stood(block)}${complete ? "" : ` ${t("loading")}`}`;
    if (this.note.textContent !== text) this.note.textContent = text;
    this.canvas.dataset.block = String(block);
    this.canvas.dataset.complete = String(complete);
    const name = [block, this.look(), state.language.value].join();
    if (this.legended === name) return;
    this.legended = name;
    const weights = Float32Array.of(this.top(block), ...(this.overview.hidden ? [-Infinity] : []));
    const quantity = t(block > 1 ? "block_bar" : "weight_bar");
    const how = legend.shading({ weights, quantity });
    const end = how.ticks.at(-1);
    if (end && this.top(block) < this.largest(block)) end[1] = `≥${end[1]}`;
    this.explain(how, weights, false);
    const { q, k, weight } = this.overview.largest;
    const largest = `${cut(this.group.queries[q], LETTERS)} → ${cut(this.group.keys[k], LETTERS)} ${number(weight)}`;
    this.canvas.setAttribute("aria-label", `${this.title}: ${largest}. ${shownOf(block)}`);
  }

  /** A cell under the pointer is looked at, a click that is no drag locks it. @param {() => boolean} dragged */
  pointed(dragged) {
    const { canvas, bounds } = this;
    const under = (/** @type {MouseEvent} */ event) => {
      const box = canvas.getBoundingClientRect();
      return cellAt(zooming.now(bounds), bounds, { x: event.clientX - box.left, y: event.clientY - box.top });
    };
    canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      const [before, at] = [state.hovered.peek(), under(event)];
      state.hovered.value = before && at && before.q === at.q && before.k === at.k ? before : at;
    });
    canvas.addEventListener("pointerleave", () => (state.hovered.value = null));
    canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      const at = dragged() ? null : under(event);
      if (at) state.lock(at);
    });
  }
}

/** @param {number} block */
const shownOf = (block) => (block > 1 ? t(state.pooled.value ? "long_mean" : "long_max", block) : t("long_exact"));

/**
 * A place, or the first and the last of a block of them.
 * @param {string[]} labels @param {number} place @param {number} block @param {number} start the number of the first
 */
function stretch(labels, place, block, start) {
  if (block === 1) return apart(labels, (label) => cut(label, LETTERS))(place);
  const first = Math.floor(place / block) * block;
  return [first, Math.min(labels.length, first + block) - 1]
    .map((at) => (start ? (at + 1).toLocaleString("en") : labels[at]))
    .join("–");
}

/**
 * All of a map is seen at first, whatever a cell has then.
 * @param {state.Group} group @param {HTMLElement} place @param {HTMLElement} canvas @param {number} margin @param
 * {number} band pixels of the labels of rows and of columns
 */
function boundsOf(group, place, canvas, margin, band) {
  const [rows, columns] = [group.queries.length, group.keys.length];
  const { width, above } = roomAt(place, canvas, margin);
  const height = Math.max(LOWEST, globalThis.innerHeight - above - band - BELOW);
  const least = Math.min(width / columns, height / rows);
  return { rows, columns, width: least * columns, height: least * rows, least, most: LARGEST };
}
