// @ts-check
/** Lines and points on a canvas between two axes, each linear or logarithmic. */

import { coloursOf, segment, sharp } from "./canvas.js";
import { number } from "./text.js";

/** @typedef {{ low: number, high: number, log?: boolean, whole?: boolean, name: string }} Axis `whole`: of counts */
/** @typedef {{ x: number, y: number, colour?: string, marked?: boolean }} Point */

const LEFT = 46;
const BELOW = 34;
const EDGE = 10;

/** @param {Axis} axis @param {number} value @returns {number} from 0 to 1 */
export function share(axis, value) {
  const turn = (/** @type {number} */ one) => (axis.log ? Math.log(one) : one);
  const [low, high] = [turn(axis.low), turn(axis.high)];
  return high > low ? (turn(value) - low) / (high - low) : 0.5;
}

/** Round values on an axis, at most about `most` of them. @param {Axis} axis @param {number} most */
export function ticks(axis, most) {
  const found = [];
  if (axis.log) {
    for (let power = 10 ** Math.floor(Math.log10(axis.low)); power <= axis.high; power *= 10) {
      for (const times of [1, 2, 5]) found.push(power * times);
    }
  } else {
    const rough = (axis.high - axis.low) / most || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((times) => times * power).find((one) => one >= rough) || rough;
    // whole steps: what is added up misses 0
    for (let at = Math.ceil(axis.low / step); at * step <= axis.high + step * 1e-6; at += 1) found.push(at * step);
  }
  const fits = (/** @type {number} */ one) => !axis.whole || Number.isInteger(one);
  return found.filter((one) => fits(one) && one >= axis.low - 1e-9 && one <= axis.high * (1 + 1e-9) + 1e-9);
}

/**
 * Where a point lies on a canvas of these sizes, in its own pixels.
 * @param {Axis} x @param {Axis} y @param {Point} point @param {number} width @param {number} height
 */
export function placed(x, y, point, width, height) {
  return {
    left: LEFT + share(x, point.x) * (width - LEFT - EDGE),
    top: EDGE + (1 - share(y, point.y)) * (height - BELOW - EDGE),
  };
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {{ x: Axis, y: Axis, lines?: { points: Point[], colour: string, dashed?: boolean }[], points?: Point[] }}
 * chart
 */
export function drawn(canvas, { x, y, lines = [], points = [] }) {
  const context = sharp(canvas);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const css = getComputedStyle(canvas);
  const [soft, line] = coloursOf(canvas, "--soft", "--line");
  axes(context, x, y, width, height, soft, line, css.fontFamily);
  const at = (/** @type {Point} */ point) => placed(x, y, point, width, height);
  for (const one of lines) {
    context.strokeStyle = one.colour;
    context.lineWidth = 1.75;
    context.setLineDash(one.dashed ? [5, 4] : []);
    context.beginPath();
    one.points.forEach((point) => {
      const { left, top } = at(point);
      context.lineTo(left, top);
    });
    context.stroke();
  }
  context.setLineDash([]);
  for (const point of points) {
    const { left, top } = at(point);
    context.fillStyle = point.colour || soft;
    context.beginPath();
    context.arc(left, top, point.marked ? 6 : 3.5, 0, 2 * Math.PI);
    context.fill();
  }
}

/**
 * @param {CanvasRenderingContext2D} context @param {Axis} x @param {Axis} y @param {number} width @param {number}
 * height
 * @param {string} soft @param {string} line @param {string} font
 */
function axes(context, x, y, width, height, soft, line, font) {
  context.font = `11px ${font}`;
  context.fillStyle = soft;
  context.strokeStyle = line;
  context.lineWidth = 1;
  context.textAlign = "center";
  context.textBaseline = "top";
  for (const value of ticks(x, Math.max(2, width / 70))) {
    const { left } = placed(x, y, { x: value, y: y.low }, width, height);
    stroke(context, left, EDGE, left, height - BELOW);
    context.fillText(number(value).replaceAll("-", "−"), left, height - BELOW + 4);
  }
  context.fillText(x.name, (LEFT + width - EDGE) / 2, height - 15);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const value of ticks(y, Math.max(2, height / 45))) {
    const { top } = placed(x, y, { x: x.low, y: value }, width, height);
    stroke(context, LEFT, top, width - EDGE, top);
    context.fillText(number(Number(value.toPrecision(6))).replaceAll("-", "−"), LEFT - 5, top);
  }
}

/**
 * @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} right
 * @param {number} down
 */
function stroke(context, x, y, right, down) {
  const half = (/** @type {number} */ at) => Math.round(at) + 0.5;
  segment(context, [half(x), half(y)], [half(right), half(down)]);
}
