// @ts-check
/** What every head of a layer did over a training: a small chart for each statistic, a line for each head. */

import { coloursOf, segment, sharp } from "../core/canvas.js";
import { fill, h } from "../dom.js";
import { effect } from "../store.js";
import { COLOURED } from "../core/color.js";
import { number } from "../core/text.js";
import * as state from "../state.js";
import { knows, t } from "../strings.js";
import { headName, layerTitle } from "../titles.js";
import { headColours } from "./head_colours.js";
import { swatch } from "./swatch.js";

const LEFT = 40;
const BOTTOM = 18;
// what is a share lies between 0 and 1
const UNBOUNDED = "distance";

/** Statistics whose titles here are others than in a table. @type {Record<string, string>} */
const TITLES = { entropy: "evenness", first: "on_first" };

/** What a statistic is. @param {string} name */
const explained = (name) => (knows(`what_${name}`) ? t(`what_${name}`) : "\u00a0");

/** @typedef {import("../pages/film.js").Film} Film */
/**
 * @typedef {{ found: Film, layer: string, numbers: import("../core/npy.js").Numbers, place: () => { at: number,
 * number: number,
 * head: number }, go: (at: number) => void }} Shown
 */

let end = () => {};

/** @param {HTMLElement} place @param {Shown} shown */
export function mount(place, shown) {
  const { found, numbers } = shown;
  const heads = numbers.shape[2];
  // of positions nothing is known where keys are of another sequence
  const known = (/** @type {number} */ at) => Number.isFinite(cell(shown, found.steps.length - 1, at, 0));
  const charts = found.statistics.flatMap((name, at) => (known(at) ? [chart(name, at, shown)] : []));
  const legend = Array.from({ length: heads }, (_, head) =>
    h(
      "button",
      { class: () => (shown.place().head === head ? "key chosen" : "key"), onclick: () => (state.head.value = head) },
      swatch(colourOf(head, heads)),
      `${head + 1}${(found.flags[shown.layer] || []).some((one) => one.head === head) ? " ⚑" : ""}`,
    ),
  );
  end();
  fill(
    place,
    h("h2", { title: shown.layer }, `${layerTitle(shown.layer, shown.place().number)}: ${t("overTraining")}`),
    h("div", { class: "legend keys", role: "group", "aria-label": t("heads") }, legend),
    h(
      "div",
      { class: "charts" },
      charts.map((one) => one.node),
    ),
  );
  const redraw = () => charts.forEach((one) => one.draw());
  const resized = new ResizeObserver(redraw);
  resized.observe(place);
  const stop = effect(() => {
    // colours are those of the page
    void state.dark.value;
    shown.place();
    legend.forEach((key, head) => (key.firstChild.style.backgroundColor = colourOf(head, heads)));
    requestAnimationFrame(redraw);
  });
  end = () => {
    stop();
    resized.disconnect();
  };
}

/** The colour of a head; many heads have no colours of their own. @param {number} head @param {number} heads */
const colourOf = (head, heads) => (heads <= COLOURED ? headColours()[head] : "#808080");

/** @param {string} name @param {number} at of the statistic @param {Shown} shown */
function chart(name, at, shown) {
  const canvas = h("canvas", { class: "curve", role: "img", tabindex: -1 });
  const told = h("output", { class: "now" });
  const node = h(
    "figure",
    {},
    h("figcaption", {}, h("span", {}, t(TITLES[name] || name)), told, h("p", { class: "side" }, explained(name))),
    canvas,
  );
  canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    const steps = shown.found.steps;
    const wanted = ((event.clientX - box.left - LEFT) / (box.width - LEFT - 6)) * steps[steps.length - 1];
    const near = steps.reduce(
      (best, step, place) => (Math.abs(step - wanted) < Math.abs(steps[best] - wanted) ? place : best),
      0,
    );
    shown.go(near);
  });
  const draw = () => {
    const { at: now, head } = shown.place();
    const value = cell(shown, now, at, head);
    told.textContent = ` ${number(value)}`;
    const end = shown.found.steps.length - 1;
    const [from, to] = [0, end].map((step) => number(cell(shown, step, at, head)));
    canvas.setAttribute("aria-label", `${t(TITLES[name] || name)}, ${headName(head)}: ${from} → ${to}`);
    drawn(canvas, name, at, shown, now, head);
  };
  return { node, draw };
}

/** @param {Shown} shown @param {number} step @param {number} at @param {number} head */
function cell({ numbers }, step, at, head) {
  const [, statistics, heads] = numbers.shape;
  return numbers.data[(step * statistics + at) * heads + head];
}

/**
 * @param {HTMLCanvasElement} canvas @param {string} name @param {number} at @param {Shown} shown @param {number} now
 * @param {number} chosen
 */
function drawn(canvas, name, at, shown, now, chosen) {
  const { found, numbers } = shown;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width || !height) return;
  const context = sharp(canvas);
  const [ink, line, mark] = coloursOf(canvas, "--soft", "--line", "--mark");
  const [steps, heads] = [found.steps, numbers.shape[2]];
  const last = steps[steps.length - 1] || 1;
  const top = name === UNBOUNDED ? highest(shown, at) : 1;
  const x = (/** @type {number} */ step) => LEFT + (step / last) * (width - LEFT - 6);
  const y = (/** @type {number} */ value) => 6 + (1 - value / top) * (height - BOTTOM - 6);
  axes(context, { x, y, top, last, ink, line, width, height });
  const path = (/** @type {number} */ head) => {
    context.beginPath();
    steps.forEach((step, place) => context.lineTo(x(step), y(cell(shown, place, at, head))));
    context.stroke();
  };
  for (const head of [...Array(heads).keys()].filter((one) => one !== chosen).concat(chosen)) {
    context.strokeStyle = heads <= COLOURED ? colourOf(head, heads) : head === chosen ? mark : ink;
    context.lineWidth = head === chosen ? 3 : 1.25;
    context.globalAlpha = head === chosen || heads <= COLOURED ? 1 : 0.4;
    path(head);
  }
  context.globalAlpha = 1;
  context.strokeStyle = mark;
  context.lineWidth = 1;
  context.setLineDash([3, 3]);
  segment(context, [x(steps[now]), 6], [x(steps[now]), height - BOTTOM]);
  context.setLineDash([]);
}

/** @param {CanvasRenderingContext2D} context @param {any} frame */
function axes(context, { x, y, top, last, ink, line, width, height }) {
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = ink;
  context.strokeStyle = line;
  context.lineWidth = 1;
  context.textAlign = "right";
  for (const value of [0, top / 2, top]) {
    segment(context, [LEFT, y(value)], [width - 6, y(value)]);
    context.fillText(number(value), LEFT - 5, y(value) + 4);
  }
  context.fillText(String(last), width - 6, height - 4);
  context.textAlign = "center";
  context.fillText(t("step"), (LEFT + width) / 2, height - 4);
  context.textAlign = "left";
  context.fillText("0", x(0), height - 4);
}

/** @param {Shown} shown @param {number} at */
function highest(shown, at) {
  let found = 0;
  for (let step = 0; step < shown.found.steps.length; step += 1) {
    for (let head = 0; head < shown.numbers.shape[2]; head += 1) found = Math.max(found, cell(shown, step, at, head));
  }
  return found > 0 ? Number((found * 1.05).toPrecision(2)) : 1;
}
