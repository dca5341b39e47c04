// @ts-check
/** One image in grey under the weights: a click on a place makes it the query, or the key of a word; arrows move it. */

import { coloursOf, density } from "../core/canvas.js";
import { signedTicks, ticks } from "../core/bar.js";
import { STRENGTH } from "../core/color.js";
import { minus } from "../core/digits.js";
import { coloured, drawn, glowBar, gridded, largest, most, under } from "../core/overlay.js";
import { number, percent } from "../core/text.js";
import { h, repainted } from "../dom.js";
import { MOVES } from "../keys.js";
import * as state from "../state.js";
import { signal } from "../store.js";
import { sentences, t } from "../strings.js";
import * as legend from "./legend.js";

/**
 * @typedef {{ weights: ArrayLike<number>, heading: string, path?: string, places: boolean, words: string[], q: number,
 * ready: string, note?: string, axis?: import("../core/overlay.js").Patches, signed?: boolean, quantity?: string
 * }} What
 * `axis`: where it is not that of the attention; `quantity`: what the numbers are, where they are no weights
 */

/** Numbers at an edge, at most. */
const NUMERALS = 16;

// kept while pages change
const strength = signal(STRENGTH);
const shown = signal(true);
const lines = signal(true);
const hidden = signal(false);

/** The key under the pointer, -1 for none. */
export const pointed = signal(-1);

/**
 * The place that was chosen as the key of what is no place itself, as a word; -1 for none.
 * @param {import("../pages/vision.js").Seen} seen @param {What} what
 */
function chosenKey(seen, what) {
  const { before, grid } = what.axis || seen.axis;
  const place = state.key.value - seen.axis.before;
  return what.places || place < 0 || place >= grid[0] * grid[1] ? -1 : before + place;
}

/**
 * The place that is read: the one under the pointer, else the one that was chosen; -1 for none.
 * @param {import("../pages/vision.js").Seen} seen @param {What} what
 */
export const readAt = (seen, what) => (pointed.value < 0 ? chosenKey(seen, what) : pointed.value);

/**
 * Another place: the query, where places are queries, else the key.
 * @param {import("../pages/vision.js").Seen} seen @param {What} what @param {number} place of the grid
 */
function choose({ axis, q }, what, place) {
  const k = axis.before + place;
  if (what.places) state.lock({ q: k, k: -1 });
  else state.lock({ q: q < 0 ? state.query.peek() : q, k });
}

/** @param {HTMLElement} place @param {import("../pages/vision.js").Seen} seen @param {What} what */
export function mount(place, seen, what) {
  const { trace } = seen;
  const axis = what.axis || seen.axis;
  const [rows, columns] = axis.grid;
  const { covered, shape } = trace.places;
  const canvas = h("canvas", { class: "over", tabindex: 0, role: "img", "aria-label": told(what, axis) });
  canvas.style.aspectRatio = `${covered[1]} / ${covered[0]}`;
  const [above, beside] = [numerals(columns), numerals(rows)];
  const edged = h("div", { class: "edged" }, above, beside, canvas);
  edged.style.setProperty("--ratio", String(covered[1] / covered[0]));
  const top = largest(what.weights, axis);
  const greyed = coloured(seen.image) ? t("greyed") : "";
  const bar = legend.bar(top > 0 ? what.quantity || t("linear_bar") : t("all_zero"));
  place.append(
    h("h2", { title: what.path || null }, what.heading),
    edged,
    // what it says stands far below on a narrow screen
    h("p", { class: "patch" }, () => {
      const k = readAt(seen, what);
      return worded(what, axis, k < 0 ? most(what.weights, axis) : k);
    }),
    bar.node,
    what.ready ? queries(seen, what) : "",
    h("p", { class: "legend" }, what.note || sentences(greyed, t(what.places ? "click_patch" : "click_key"))),
  );
  canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const k = under(canvas, event, axis);
    if (k >= 0) choose(seen, what, k - axis.before);
  });
  const point = (/** @type {MouseEvent} */ event) => (pointed.value = under(canvas, event, axis));
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerleave", () => (pointed.value = -1));
  canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => moved(event, seen, what));
  const dots = density();
  const paint = () => {
    const ramp = what.signed ? state.signs() : state.inks();
    const [page, mark, link] = coloursOf(canvas, "--page", "--mark", "--link");
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * dots));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * dots));
    const on = shown.value && !hidden.value ? strength.value : 0;
    drawn(canvas, seen.image, { weights: what.weights, axis, strength: on, covered, shape, ramp, signs: what.signed });
    bar.draw(
      what.signed ? ramp : glowBar(strength.value),
      top > 0 ? (what.signed ? signedTicks : ticks)(top, "linear") : [],
    );
    const fits = canvas.width / Math.max(rows, columns) >= 5 * dots;
    /** @type {[number, string][]} */
    const marks = on && pointed.value >= 0 ? [[pointed.value, link]] : [];
    const chosen = chosenKey(seen, what);
    // what is no place, as a word and a class token, looks at one, as a place looks at others
    const at = what.places && (what.q < 0 || what.q >= axis.before) ? what.q : most(what.weights, axis);
    marks.push([chosen < 0 ? at : chosen, mark]);
    const read = (pointed.value < 0 ? marks[marks.length - 1][0] : pointed.value) - axis.before;
    [...beside.children].forEach((node, row) => node.classList.toggle("on", row === Math.floor(read / columns)));
    [...above.children].forEach((node, column) => node.classList.toggle("on", read >= 0 && column === read % columns));
    gridded(canvas, axis, { lines: lines.value && fits, marks, page, dots });
  };
  const end = repainted(canvas, paint);
  if (what.ready) document.documentElement.dataset.ready = what.ready;
  return end;
}

/** The numbers of rows or columns at an edge, as many as there is room for. @param {number} count */
const numerals = (count) =>
  h(
    "div",
    { class: "numerals", "aria-hidden": "true" },
    Array.from({ length: count }, (_, at) => h("span", {}, (at + 1) % Math.ceil(count / NUMERALS) ? "" : at + 1)),
  );

/** How the image and the weights are shown, on all pictures of the page. */
export function controls() {
  const toggled = (/** @type {string} */ name, /** @type {{ value: boolean, peek: () => boolean }} */ of) => {
    const box = h("input", { type: "checkbox", checked: of.peek(), onchange: () => (of.value = box.checked) });
    return h("label", {}, box, () => t(name));
  };
  const hide = (/** @type {boolean} */ now) => () => (hidden.value = now);
  const slider = h("input", {
    type: "range",
    min: 0,
    max: 1,
    step: 0.05,
    value: strength.peek(),
    "aria-label": () => t("opacity"),
    oninput: () => (strength.value = Number(slider.value)),
  });
  return h(
    "div",
    { class: "views" },
    toggled("overlay", shown),
    toggled("grid", lines),
    h(
      "button",
      {
        class: "tab",
        onpointerdown: hide(true),
        onpointerup: hide(false),
        onpointerleave: hide(false),
        onkeydown: hide(true),
        onkeyup: hide(false),
        onblur: hide(false),
      },
      () => t("hold"),
    ),
    h("label", { class: "slider" }, () => t("opacity"), slider),
  );
}

/**
 * Queries that are no places: words, class tokens, the mean of all.
 * @param {import("../pages/vision.js").Seen} seen @param {What} what
 */
function queries(seen, what) {
  // without a choice a caption shows a word; the mean lies behind the last one
  const button = (/** @type {string} */ label, /** @type {number} */ q, value = q) =>
    h(
      "button",
      {
        class: what.q === q ? "token chosen" : "token",
        "aria-pressed": String(what.q === q),
        onclick: () => (state.query.value = value),
      },
      label,
    );
  const words = what.words.map((word, q) => button(word, q));
  const before = seen.trace.axes[seen.group.name].queries.before || 0;
  const classes = what.places ? Array.from({ length: before }, (_, q) => button(t("class_token"), q)) : [];
  const mean =
    what.q < 0 || seen.trace.places.chosen === null ? [button(t("mean_of_queries"), -1, words.length || -1)] : [];
  const all = [...mean, ...classes, ...words];
  // the only one that there is, and that is taken, is no choice
  const free = all.some((one) => one.getAttribute("aria-pressed") === "false");
  return free ? h("div", { class: "tokens", role: "group", "aria-label": t("queries") }, all) : "";
}

/**
 * The arrows move the place that looks, or that a word looks at.
 * @param {KeyboardEvent} event @param {import("../pages/vision.js").Seen} seen @param {What} what
 */
function moved(event, seen, what) {
  const move = MOVES[event.key];
  if (!move) return;
  event.preventDefault();
  event.stopPropagation();
  const { grid, before } = what.axis || seen.axis;
  // a press may come before what the last one asked for
  const q = state.query.peek() < 0 ? what.q : state.query.peek();
  const key = chosenKey(seen, what);
  const now = Math.max(0, (what.places ? q : key < 0 ? most(what.weights, what.axis || seen.axis) : key) - before);
  const within = (/** @type {number} */ value, /** @type {number} */ most) => Math.max(0, Math.min(most - 1, value));
  const row = within(Math.floor(now / grid[1]) + move[0], grid[0]);
  const column = within((now % grid[1]) + move[1], grid[1]);
  pointed.value = -1;
  state.instead(() => choose(seen, what, row * grid[1] + column));
}

/** A place by row and column, counted from 1, or a class token. @param {number} k @param {any} axis */
export function named(k, axis) {
  const at = k - axis.before;
  return at < 0 ? t("the_class") : t("patch_at", Math.floor(at / axis.grid[1]) + 1, (at % axis.grid[1]) + 1);
}

/** The same in fewest letters. @param {number} k @param {any} axis */
export function short(k, axis) {
  const at = k - axis.before;
  return at < 0 ? t("class_token") : `${Math.floor(at / axis.grid[1]) + 1}, ${(at % axis.grid[1]) + 1}`;
}

/** @param {What} what @param {import("../core/overlay.js").Patches} axis @param {number} k */
function worded({ weights, signed }, axis, k) {
  const value = signed ? minus(number(weights[k])) : percent(weights[k], 1);
  return `${named(k, axis)}: ${value}`;
}

/** @param {What} what @param {any} axis */
function told(what, axis) {
  const order = Array.from(what.weights, (_, k) => k)
    .sort((one, two) => Math.abs(what.weights[two]) - Math.abs(what.weights[one]))
    .slice(0, 3);
  return [what.heading, ...order.map((k) => worded(what, axis, k))].join("; ");
}
