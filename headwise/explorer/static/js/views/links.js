// @ts-check
/**
 * Queries on the left, keys on the right, a line for each strong weight of several heads in their colours; the lines of
 * the looked-at token stand out.
 */

import { contextOf, density } from "../core/canvas.js";
import { h } from "../dom.js";
import { effect, signal } from "../store.js";
import { MOST, sentencePair, strongest } from "../core/links.js";
import { percent } from "../core/text.js";
import * as ends from "./ends.js";
import * as parts from "./part.js";
import { COLOURED } from "../core/color.js";
import { headColours } from "./head_colours.js";
import { chosen } from "./heat.js";
import { spelled } from "./spelled.js";
import { rolled, seen } from "./seen.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { headName, sidesOf } from "../titles.js";
import { toolbar } from "./toolbar.js";
import { WORDS } from "../words/links.js";

learn(WORDS);

/**
 * Pixels of a row, at least and at most, of one beside a row alone, and of all rows where there are few; pixels of a
 * share beside a token.
 */
export const STEP = 24;
const [LARGEST, LARGE, ROOM, SHARE] = [44, 36, 440, 12];
/** Pixels of the line of a weight of 1, and of the largest weight of a part. */
const [WIDEST, PART] = [4, 7];
/** Lines that are drawn at once; those of a token that is looked at are drawn besides. */
const DRAWN = 1500;
/** Pixels of a screen on which the titles of the sides are short. */
const NARROW = 760;

/** Milliseconds within which two clicks are a double one. */
const TWICE = 400;
/** The button of a head that was pressed last: it is another element then, which has the focus. */
let lastChip = { head: -1, at: 0, focus: false };

/**
 * @typedef {{ head: number, place: number, weights: Float32Array }} Coloured a head, and which colour it has
 * @typedef {{ q: number, k: number, weight: number, place: number }} Line
 * `part`: where rows and columns of a part are in its head, null where all are there; every
 * link of it is drawn; `press`: what a click on a token does, where it does not lock it;
 * `top`: the largest weight of what it is a part of
 * @typedef {import("./heat.js").Head & { coloured?: Coloured[], count?: number, chosen?: number,
 * pair?: number[] | null, part?: { q: number[] | null, k: number[] | null },
 * top?: number, press?: (side: "q" | "k", place: number) => void }} Heads
 */

/** The heads of a layer that have colours: the eight among which the chosen one is. @param {state.Group} group */
function window(group) {
  const { head } = state.place(group);
  const first = Math.floor(head / COLOURED) * COLOURED;
  return Array.from({ length: Math.min(COLOURED, group.heads - first) }, (_, place) => first + place);
}

/** Those of them that are shown: the chosen one always. @param {state.Group} group */
export function shownHeads(group) {
  const { head } = state.place(group);
  const all = window(group);
  // of many tokens the lines of one head are enough to read
  if (!state.beside.value) return parts.isLarge({ group }) ? [head] : all;
  const named = state.beside.value.split(".").map(Number);
  return all.filter((one) => one === head || named.includes(one));
}

/** What the links show besides the chosen head. @param {state.Trace} trace @param {state.Group} group */
export async function more(trace, group) {
  const { head } = state.place(group);
  const { special = [] } = spelled(trace, group).keys;
  const [same, length] = [state.oneSequence(group), group.keys.length];
  const pair = same ? sentencePair(special, length) : null;
  if (rolled(group)) return { pair };
  const coloured = await Promise.all(
    shownHeads(group).map(async (one) => {
      const { weights } = await seen(trace, group, one);
      return { head: one, place: one % COLOURED, weights };
    }),
  );
  return { coloured, count: group.heads, chosen: head, pair, withHeads: withHeads(group) };
}

/** The heads beside the chosen one, for a title; "" where there are none. @param {state.Group} group */
export function withHeads(group) {
  const { head } = state.place(group);
  const others = rolled(group) ? [] : shownHeads(group).filter((one) => one !== head);
  if (!others.length) return "";
  return t(others.length > 1 ? "with_heads" : "with_head", others.map((one) => one + 1).join(t("comma")));
}

/** The lines of all heads that are shown, and how many there would be. @param {Heads} head @param {string} between */
export function linesOf(head, between = "") {
  const { group, pair } = head;
  const [rows, columns] = [group.queries.length, group.keys.length];
  const [from, to] = between.split("").map(Number);
  const whole = !between || !pair;
  const meets = (/** @type {number} */ q, /** @type {number} */ k) =>
    whole || !pair || (partOf(head.rows, pair, q) === from && partOf(head.columns, pair, k) === to);
  /** @type {Line[]} */
  const lines = [];
  let [all, cut] = [0, false];
  for (const { place, weights } of colouredOf(head)) {
    for (let at = 0; at < weights.length; at += 1)
      if (weights[at] > 0 && (whole || meets(Math.floor(at / columns), at % columns))) all += 1;
    const mass = head.part ? 1 : state.mass.value / 100;
    const found = strongest(weights, rows, columns, mass, { q: -1, k: -1 });
    cut = cut || found.cut;
    for (const link of found.links) {
      if (lines.length >= MOST) return { lines, all, cut: true };
      if (meets(link.q, link.k)) lines.push(Object.assign(link, { place }));
    }
  }
  return { lines, all, cut };
}

/** As many of the strongest lines as are drawn at once; more could not be told apart. @param {Line[]} lines */
export function strongestOf(lines) {
  if (lines.length <= DRAWN) return lines;
  const least = Float32Array.from(lines, ({ weight }) => weight).sort()[lines.length - DRAWN];
  let equal = DRAWN - lines.reduce((count, { weight }) => count + Number(weight > least), 0);
  return lines.filter(({ weight }) => weight > least || (weight === least && (equal -= 1) >= 0));
}

/** The part of a pair that a row or column is in. @param {number[][] | undefined} held @param {number[]} pair @param
 * {number} at */
const partOf = (held, pair, at) => pair[held ? held[at][0] : at];

/** @param {Heads} head */
export const colouredOf = (head) => head.coloured || [{ head: 0, place: 0, weights: head.weights }];

/** @param {HTMLElement} place @param {Heads} head */
export const mount = (place, head) => (parts.isLarge(head) ? parts.mount(place, head, draw) : draw(place, head));

/** @param {HTMLElement} place @param {Heads} head */
export function draw(place, head) {
  const { group } = head;
  const count = Math.max(group.queries.length, group.keys.length, 1);
  const step = Math.max(STEP, Math.min(head.press ? LARGE : LARGEST, Math.floor(ROOM / count)));
  const [faint, lit] = [h("canvas", { "aria-hidden": "true" }), h("canvas", { "aria-hidden": "true" })];
  const strands = h("div", { class: "strands" }, faint, lit);
  const { queries, keys, end: unmark } = ends.mount(head, "below", head.part);
  const [names, note] = [sidesOf(group), h("p", { class: "legend" })];
  const between = signal("");
  const narrow = innerWidth <= NARROW;
  const title = (/** @type {"from" | "to"} */ side) => h("span", {}, t(narrow ? `attends_${side}` : names[side]));
  const shared = head.part ? sharesOf(head, queries, keys) : null;
  const ofHead = head.chosen === undefined ? "" : t("in_head", headName(head.chosen));
  place.append(
    controls(head, between),
    h(
      "div",
      { class: "linked" },
      h("p", { class: "side" }, title("from"), title("to")),
      blockNames(head),
      h("div", { class: "ends from" }, queries),
      strands,
      h("div", { class: "ends" }, keys),
    ),
    h("p", { class: "legend" }, t(head.press ? "links_note_row" : shared ? "links_note_part" : "links_note", ofHead)),
    note,
  );
  const linked = /** @type {HTMLElement} */ (place.querySelector(".linked"));
  linked.style.setProperty("--step", `${step}px`);
  linked.classList.toggle("part", Boolean(head.part));
  if (lastChip.focus) {
    lastChip.focus = false;
    const first = Math.floor((head.chosen || 0) / COLOURED) * COLOURED;
    /** @type {HTMLElement[]} */ ([...place.querySelectorAll(".chip")])[lastChip.head - first]?.focus();
  }
  strands.style.height = `${step * count}px`;
  // asked for only where it changes: under the pointer, each question would lay out the page anew
  const width = signal(strands.clientWidth);
  const resized = new ResizeObserver(() => (width.value = strands.clientWidth));
  resized.observe(strands);
  const end = effect(() => {
    // the colours of lines are those of the page
    void state.dark.value;
    const { lines, all, cut } = linesOf(head, between.value);
    const drawn = strongestOf(lines);
    const [some, every] = [drawn.length, all].map((one) => one.toLocaleString("en"));
    note.textContent = head.part
      ? ""
      : t(cut || drawn.length < lines.length ? "links_most" : "links_cut", some, every, state.mass.value);
    const picture = new Picture(faint, lit, width.value, step, head, lines, drawn);
    // links stand back once somebody looks at one token, of a part behind the chosen row at once
    const free = () => !head.part && !state.hovered.value && state.query.value < 0 && state.key.value < 0;
    return effect(() => {
      const at = state.hovered.value || chosen(head);
      picture.draw(at, free());
      shared?.(at);
      linked.classList.toggle("by-key", at.q < 0 && at.k >= 0);
    });
  });
  return () => {
    resized.disconnect();
    unmark();
    end();
  };
}

/** The numbers of the heads above their blocks, where there are several. @param {Heads} head */
function blockNames(head) {
  const shown = head.coloured || [];
  if (shown.length < 2) return null;
  const first = Math.floor((head.chosen || 0) / COLOURED) * COLOURED;
  const name = (/** @type {Coloured} */ { head: one }) =>
    h("span", { class: `of-head-${one - first}` }, String(one + 1));
  return h("p", { class: "of-blocks", "aria-hidden": "true" }, shown.map(name));
}

/**
 * What the chosen head gives between the looked-at token and each of the other side, in percent beside these.
 * @param {Heads} head @param {HTMLElement[]} queries @param {HTMLElement[]} keys
 * @returns {(at: { q: number, k: number }) => void}
 */
function sharesOf({ weights }, queries, keys) {
  const put = (/** @type {HTMLElement} */ node, /** @type {number | null} */ weight) =>
    (node.dataset.share = weight === null ? "" : percent(Math.max(0, weight), 1));
  return ({ q, k }) => {
    queries.forEach((node, at) => put(node, q < 0 && k >= 0 ? weights[at * keys.length + k] : null));
    keys.forEach((node, at) => put(node, q >= 0 ? weights[q * keys.length + at] : null));
  };
}

/**
 * An empty canvas of a size; to set one that it has would make its memory anew.
 * @param {HTMLCanvasElement} canvas @param {number[]} size
 */
function sized(canvas, [width, height]) {
  if (canvas.width === width && canvas.height === height) {
    canvas.getContext("2d")?.clearRect(0, 0, width, height);
    return;
  }
  canvas.height = 0;
  [canvas.width, canvas.height] = [width, height];
}

/** Lines on two canvases: all of them, which are drawn once, and those that stand out. */
class Picture {
  /**
   * @param {HTMLCanvasElement} faint @param {HTMLCanvasElement} lit @param {number} width @param {number} step
   * @param {Heads} head @param {Line[]} lines
   * @param {Line[]} drawn those of them that are drawn whatever is looked at
   */
  constructor(faint, lit, width, step, head, lines, drawn) {
    const { queries, keys } = head.group;
    const dots = density();
    const most = Math.max(queries.length, keys.length);
    this.size = [width, step * most].map((one) => Math.max(1, Math.round(one * dots)));
    // the fewer tokens of a part stand in the middle of the others
    const spare = (/** @type {string[]} */ side) => (head.part ? (most - side.length) / 2 : 0);
    this.above = { q: spare(queries), k: spare(keys) };
    /** The weight of the widest line, and its pixels: of a part the largest. */
    this.full = head.part ? lines.reduce((largest, { weight }) => Math.max(largest, weight), 0) || 1 : 1;
    this.widest = head.part ? PART : WIDEST;
    sized(lit, this.size);
    this.faint = faint;
    this.canvas = lit;
    this.head = head;
    this.lines = lines;
    this.drawn = drawn;
    this.dots = dots;
    this.step = step * dots;
    this.colours = headColours();
    this.margin = SHARE * dots * colouredOf(head).length + 4 * dots;
    this.sharesLeft = false;
    /** Whether anything stands out. */
    this.marked = false;
    this.background();
  }

  /** All lines, between the margin of the shares and the other side. */
  background() {
    sized(this.faint, this.size);
    this.stroke(contextOf(this.faint), this.drawn, 0.5);
  }

  /** @param {CanvasRenderingContext2D} context @param {Line[]} lines @param {number} strength */
  stroke(context, lines, strength) {
    const bare = 2 * this.dots;
    const left = this.sharesLeft ? this.margin : bare;
    const right = this.canvas.width - (this.sharesLeft ? bare : this.margin);
    const shown = colouredOf(this.head);
    // lines of several heads lie beside each other, within the row of a token
    const apart = Math.min(4.5 * this.dots, (0.7 * this.step) / shown.length);
    const order = new Map(shown.map(({ place }, at) => [place, at - (shown.length - 1) / 2]));
    context.lineCap = "round";
    let colour = -1;
    for (const { q, k, weight, place } of lines) {
      const [aside, level] = [apart * (order.get(place) || 0), Math.min(1, weight / this.full)];
      // to set a colour costs as much as a line
      if (place !== colour) context.strokeStyle = this.colours[(colour = place)];
      context.globalAlpha = strength * (0.35 + 0.65 * level);
      context.lineWidth = this.dots * (0.5 + this.widest * level);
      context.beginPath();
      context.moveTo(left, (this.above.q + q + 0.5) * this.step + aside);
      context.lineTo(right, (this.above.k + k + 0.5) * this.step + aside);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  /** @param {{ q: number, k: number }} at @param {boolean} free whether all links stand out */
  draw(at, free) {
    const context = contextOf(this.canvas);
    const sharesLeft = at.q < 0 && at.k >= 0;
    if (sharesLeft !== this.sharesLeft) {
      this.sharesLeft = sharesLeft;
      this.background();
    }
    // thousands of lines are not drawn anew because they stand back
    this.faint.style.opacity = free ? "" : this.head.part ? "0.3" : "0.45";
    if (this.marked) context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.marked = at.q >= 0 || at.k >= 0;
    const lit = this.lines.filter(({ q, k }) => (at.q >= 0 ? q === at.q : at.k >= 0 && k === at.k));
    this.stroke(context, lit, 1);
    this.shares(context, at);
  }

  /** What each head gives to each token of the other side. @param {CanvasRenderingContext2D} context @param {{ q:
   * number, k: number }} at */
  shares(context, { q, k }) {
    const { queries, keys } = this.head.group;
    const size = SHARE * this.dots;
    colouredOf(this.head).forEach(({ place, weights }, column) => {
      context.fillStyle = this.colours[place];
      const left = q >= 0 ? this.canvas.width - this.margin + 4 * this.dots + column * size : column * size;
      const many = q >= 0 ? keys.length : k >= 0 ? queries.length : 0;
      const above = q >= 0 ? this.above.k : this.above.q;
      for (let row = 0; row < many; row += 1) {
        const weight = q >= 0 ? weights[q * keys.length + row] : weights[row * keys.length + k];
        context.globalAlpha = Math.max(0.06, Math.min(1, weight / this.full));
        context.fillRect(left, (above + row + 0.15) * this.step, size - this.dots, 0.7 * this.step);
      }
    });
    context.globalAlpha = 1;
  }
}

/** Which heads are shown, how much of each row, and of a pair of sentences between which.
 * @param {Heads} head @param {{ value: string }} between */
function controls(head, between) {
  const share = h("input", {
    type: "range",
    min: 50,
    max: 100,
    step: 1,
    value: () => state.mass.value,
    "aria-label": t("links_mass"),
    oninput: () => state.instead(() => (state.mass.value = Number(share.value))),
  });
  const pairs = h(
    "select",
    { "aria-label": t("links_between"), onchange: () => (between.value = pairs.value) },
    [
      ["", "links_all"],
      ["00", "a_to_a"],
      ["01", "a_to_b"],
      ["10", "b_to_a"],
      ["11", "b_to_b"],
    ].map(([value, name]) => h("option", { value }, t(name))),
  );
  return h(
    "div",
    { class: "link-controls" },
    head.coloured && (head.count || 1) > 1 ? chips(head) : null,
    head.part
      ? null
      : h(
          "label",
          { class: "slider" },
          t("links_mass"),
          share,
          h("output", {}, () => percent(state.mass.value / 100, 0)),
        ),
    head.pair ? h("label", { class: "slider" }, t("links_between"), pairs) : null,
  );
}

/** @param {Heads} head */
function chips({ group, coloured = [], count = 1, chosen: now = 0 }) {
  const first = Math.floor(now / COLOURED) * COLOURED;
  const shown = coloured.map((one) => one.head);
  const put = (/** @type {number[]} */ heads) => (state.beside.value = heads.join("."));
  const toggle = (/** @type {number} */ one) => {
    if (!shown.includes(one)) return put([...shown, one].sort((a, b) => a - b));
    const rest = shown.filter((other) => other !== one);
    if (!rest.length) return void (lastChip.focus = false);
    if (one === now) state.go(group, { head: rest[0] });
    return put(rest);
  };
  const solo = (/** @type {number} */ one) => {
    state.go(group, { head: one });
    put([one]);
  };
  const all = Array.from({ length: Math.min(COLOURED, count - first) }, (_, place) => first + place);
  const chip = (/** @type {number} */ one) =>
    h(
      "button",
      {
        class: `chip of-head-${one - first}`,
        "aria-pressed": String(shown.includes(one)),
        title: t("chip_note"),
        onclick: (/** @type {MouseEvent} */ event) => {
          const twice = lastChip.head === one && event.timeStamp - lastChip.at < TWICE;
          lastChip = { head: one, at: event.timeStamp, focus: true };
          if (event.shiftKey || twice) solo(one);
          else toggle(one);
        },
      },
      h("i", { "aria-hidden": "true" }),
      headName(one),
    );
  return toolbar(() => t("heads_shown"), "chips", all.map(chip));
}
