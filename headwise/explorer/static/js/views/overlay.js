// @ts-check
/** One image with the weights over it: a click on a place makes it the query, a slider says how strong the glow is. */

import { drawn, gridded, largest, under } from "../core/overlay.js";
import { number } from "../core/text.js";
import { h } from "../dom.js";
import * as state from "../state.js";
import { effect, signal } from "../store.js";
import { t } from "../strings.js";

/**
 * @typedef {{ weights: ArrayLike<number>, heading: string, places: boolean, words: string[], q: number, ready: string,
 * note?: string }} What
 */

// kept while pages change
const strength = signal(0.85);
const shown = signal(true);
const lines = signal(true);
const held = signal(false);

/**
 * @param {HTMLElement} place
 * @param {import("../pages/vision.js").Seen} seen
 * @param {What} what
 * @returns {() => void}
 */
export function mount(place, seen, what) {
  const { axis, trace } = seen;
  const [rows, columns] = axis.grid;
  const { covered, shape } = trace.places;
  const canvas = h("canvas", { class: "over", tabindex: 0, role: "img", "aria-label": told(what, axis) });
  canvas.style.aspectRatio = `${covered[1]} / ${covered[0]}`;
  canvas.style.maxWidth = `min(100%, ${Math.round((26 * covered[1]) / Math.max(...covered))}rem)`;
  const line = h("p", { class: "legend" }, summary(what, axis));
  const note = what.note ? h("p", { class: "note" }, what.note) : null;
  place.append(
    h("div", {}, h("h2", {}, what.heading), canvas, line, what.ready ? [controls(), queries(seen, what)] : null, note),
  );
  canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const k = under(canvas, event, axis);
    if (k >= 0 && what.places) pick(k, seen);
  });
  canvas.addEventListener("pointermove", (/** @type {MouseEvent} */ event) => {
    const k = under(canvas, event, axis);
    line.textContent = k < 0 ? summary(what, axis) : `${named(k, axis)}: ${number(what.weights[k])}`;
  });
  canvas.addEventListener("pointerleave", () => (line.textContent = summary(what, axis)));
  canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => moved(event, seen, what));
  const dots = window.devicePixelRatio || 1;
  const paint = () => {
    void state.dark.value;
    const css = getComputedStyle(canvas);
    const [glow, mark, ink] = ["--glow", "--accent", "--ink"].map((name) => css.getPropertyValue(name).trim());
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * dots));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * dots));
    const on = shown.value && !held.value ? strength.value : 0;
    drawn(canvas, seen.image, { weights: what.weights, axis, strength: on, covered, shape, glow });
    const fits = canvas.width / Math.max(rows, columns) >= 5 * dots;
    gridded(canvas, axis, { lines: lines.value && fits ? ink : null, mark, chosen: what.places ? what.q : -1, dots });
  };
  const end = effect(paint);
  const resized = new ResizeObserver(() => paint());
  resized.observe(canvas);
  if (what.ready) document.documentElement.dataset.ready = what.ready;
  return () => {
    resized.disconnect();
    end();
  };
}

/** How the image and the weights are shown, on all pictures of the page. */
function controls() {
  const toggled = (/** @type {string} */ name, /** @type {{ value: boolean }} */ of) =>
    h(
      "button",
      {
        class: () => (of.value ? "tab chosen" : "tab"),
        "aria-pressed": () => String(of.value),
        onclick: () => (of.value = !of.value),
      },
      () => t(name),
    );
  const hide = (/** @type {boolean} */ now) => () => (held.value = now);
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
    { class: "tabs" },
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
 * @param {import("../pages/vision.js").Seen} seen
 * @param {What} what
 */
function queries(seen, what) {
  const button = (/** @type {string} */ label, /** @type {number} */ q) =>
    h(
      "button",
      {
        class: what.q === q ? "token chosen" : "token",
        "aria-pressed": String(what.q === q),
        onclick: () => (state.query.value = q),
      },
      label,
    );
  const words = what.words.map((word, q) => button(word, q));
  const before = seen.trace.axes[seen.group.name].queries.before || 0;
  const classes = what.places ? Array.from({ length: before }, (_, q) => button(seen.group.queries[q], q)) : [];
  const mean = what.q < 0 || seen.trace.places.chosen === null ? [button(t("mean_of_queries"), -1)] : [];
  return h("div", { class: "tokens", role: "group", "aria-label": t("queries") }, mean, classes, words);
}

/** @param {number} k @param {import("../pages/vision.js").Seen} seen */
function pick(k, seen) {
  state.query.value = k;
  state.status.value = named(k, seen.axis);
}

const MOVES = /** @type {Record<string, [number, number]>} */ ({
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
});

/**
 * The arrows move the place that looks.
 * @param {KeyboardEvent} event
 * @param {import("../pages/vision.js").Seen} seen
 * @param {What} what
 */
function moved(event, seen, what) {
  const move = MOVES[event.key];
  if (!move || !what.places) return;
  event.preventDefault();
  event.stopPropagation();
  const { grid, before } = seen.axis;
  // a press may come before what the last one asked for
  const q = state.query.peek() < 0 ? what.q : state.query.peek();
  const now = Math.max(0, q - before);
  const within = (/** @type {number} */ value, /** @type {number} */ most) => Math.max(0, Math.min(most - 1, value));
  const row = within(Math.floor(now / grid[1]) + move[0], grid[0]);
  const column = within((now % grid[1]) + move[1], grid[1]);
  state.instead(() => pick(before + row * grid[1] + column, seen));
}

/** A place by row and column, or a class token. @param {number} k @param {any} axis */
function named(k, axis) {
  const place = k - axis.before;
  return place < 0
    ? t("class_token")
    : `${t("row")} ${Math.floor(place / axis.grid[1])}, ${t("column")} ${place % axis.grid[1]}`;
}

/** @param {What} what @param {any} axis */
function summary(what, axis) {
  let own = 0;
  for (let k = 0; k < axis.before; k += 1) own += what.weights[k];
  const classes = axis.before ? ` · ${t("class_token")}: ${number(own)}` : "";
  return `0 … ${number(largest(what.weights, axis))}${classes}`;
}

/** What the picture shows, in words. @param {What} what @param {any} axis */
function told(what, axis) {
  const order = Array.from(what.weights, (value, k) => [value, k])
    .sort((one, two) => two[0] - one[0])
    .slice(0, 3);
  return `${what.heading}: ${order.map(([value, k]) => `${named(k, axis)} ${number(value)}`).join("; ")}`;
}
