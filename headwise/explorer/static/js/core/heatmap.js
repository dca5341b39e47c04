// @ts-check
/** A matrix on a canvas: cells by entries of a ramp, forbidden ones hatched, a row, a column and a cell marked. */

import { coloursOf, contextOf, density } from "./canvas.js";
import { ramp } from "./color.js";

const HATCHED = new Uint8ClampedArray([128, 128, 128, 70, 128, 128, 128, 25]);

/**
 * Paints cells of one image pixel each into a canvas of their own, to be scaled without smoothing.
 * @param {Int16Array} entries @param {number} rows @param {number} columns @param {string} name of the ramp
 */
export function painted(entries, rows, columns, name) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, rows);
  const context = contextOf(canvas);
  const image = context.createImageData(canvas.width, canvas.height);
  // a pixel is one number, as the bytes of the ramp lie in memory
  const pixels = new Uint32Array(image.data.buffer);
  const table = new Uint32Array(ramp(name).buffer);
  const [dark, pale] = new Uint32Array(HATCHED.buffer);
  for (let i = 0; i < rows * columns; i += 1) {
    const entry = entries[i];
    // hatched: a forbidden pair is not a weight of zero
    if (entry < 0) pixels[i] = (Math.floor(i / columns) + (i % columns)) % 4 ? pale : dark;
    else pixels[i] = table[entry];
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * A window of a painted matrix as large as it is seen, with lines across large forbidden cells.
 * @param {HTMLCanvasElement} canvas where it is drawn @param {HTMLCanvasElement} cells @param {Int16Array} entries
 * @param {import("./zoom.js").Window} window in pixels of the canvas @param {number} columns
 */
export function windowed(canvas, cells, entries, { x, y, side, tall = side }, columns) {
  const context = contextOf(canvas);
  context.imageSmoothingEnabled = false;
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.drawImage(cells, -x * side, -y * tall, cells.width * side, cells.height * tall);
  if (side < 6 * density()) return;
  context.save();
  context.beginPath();
  const last = {
    q: Math.min(cells.height, Math.ceil(y + canvas.height / tall)),
    k: Math.min(columns, Math.ceil(x + canvas.width / side)),
  };
  for (let q = Math.floor(y); q < last.q; q += 1) {
    for (let k = Math.floor(x); k < last.k; k += 1) {
      if (entries[q * columns + k] < 0) context.rect((k - x) * side, (q - y) * tall, side, tall);
    }
  }
  context.clip();
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.strokeStyle = "rgba(128, 128, 128, 0.45)";
  context.beginPath();
  for (let at = -canvas.height; at < canvas.width; at += 7) {
    context.moveTo(at, canvas.height);
    context.lineTo(at + canvas.height, 0);
  }
  context.stroke();
  context.restore();
}

/**
 * Lines between cells, as far as these have room for them, in the colour of what is around the map.
 * @param {HTMLCanvasElement} canvas @param {import("./zoom.js").Window} window in pixels of the canvas @param {string}
 * colour
 */
export function parted(canvas, { x, y, side, tall = side }, colour) {
  const dots = density();
  if (side < 16 * dots) return;
  const context = contextOf(canvas);
  context.fillStyle = colour;
  for (let at = (Math.ceil(x) - x) * side; at <= canvas.width; at += side)
    context.fillRect(Math.round(at - dots), 0, dots, canvas.height);
  for (let at = (Math.ceil(y) - y) * tall; at <= canvas.height; at += tall)
    context.fillRect(0, Math.round(at - dots), canvas.width, dots);
}

/**
 * @param {HTMLCanvasElement} canvas @param {import("./zoom.js").Window} window in pixels of the canvas @param {number}
 * rows @param {number} columns
 * @param {(at: number) => { text: string, colour: string } | null} numeral of a cell
 */
export function numbered(canvas, { x, y, side, tall = side }, rows, columns, numeral) {
  const context = contextOf(canvas);
  const dots = density();
  context.font = `${(side >= 50 * dots ? 14 : 12) * dots}px ${getComputedStyle(document.body).fontFamily}`;
  [context.textAlign, context.textBaseline] = ["center", "middle"];
  const last = {
    q: Math.min(rows, Math.ceil(y + canvas.height / tall)),
    k: Math.min(columns, Math.ceil(x + canvas.width / side)),
  };
  for (let q = Math.floor(y); q < last.q; q += 1) {
    for (let k = Math.floor(x); k < last.k; k += 1) {
      const found = numeral(q * columns + k);
      if (!found) continue;
      context.fillStyle = found.colour;
      context.fillText(found.text, (k - x + 0.5) * side, (q - y + 0.5) * tall);
    }
  }
}

/**
 * A line behind so many rows, and one behind so many columns.
 * @param {HTMLCanvasElement} canvas @param {number} count @param {import("./zoom.js").Window} window in pixels of the
 * canvas @param {string} colour
 */
export function seamed(canvas, count, { x, y, side, tall = side }, colour) {
  const context = contextOf(canvas);
  const wide = 2 * density();
  context.fillStyle = colour;
  context.fillRect(0, Math.round((count - y) * tall - wide / 2), canvas.width, wide);
  context.fillRect(Math.round((count - x) * side - wide / 2), 0, wide, canvas.height);
}

/**
 * Frames of a row, a column and a cell, over a window.
 * @param {HTMLCanvasElement} canvas @param {{ q: number, k: number }} cell -1 for none
 * @param {import("./zoom.js").Window} window in pixels of the canvas
 */
export function marked(canvas, { q, k }, { x, y, side, tall = side }) {
  const context = contextOf(canvas);
  const dots = density();
  const [left, top] = [(k - x) * side, (q - y) * tall];
  context.strokeStyle = coloursOf(canvas, "--mark")[0] || "#d55e00";
  context.lineWidth = dots;
  if (q >= 0) context.strokeRect(0.5, top, canvas.width - 1, tall);
  if (k >= 0) context.strokeRect(left, 0.5, side, canvas.height - 1);
  if (q < 0 || k < 0) return;
  context.lineWidth = (side < 16 * dots ? 2 : 3) * dots;
  context.strokeRect(left, top, side, tall);
}

/**
 * The cell under a pointer; null beside the matrix.
 * @param {HTMLCanvasElement} canvas @param {MouseEvent} event @param {number} rows @param {number} columns
 */
export function under(canvas, event, rows, columns) {
  const box = canvas.getBoundingClientRect();
  const k = Math.floor(((event.clientX - box.left) / box.width) * columns);
  const q = Math.floor(((event.clientY - box.top) / box.height) * rows);
  return k >= 0 && k < columns && q >= 0 && q < rows ? { q, k } : null;
}

/**
 * Where the largest of some numbers is: of `count` of them, from one on, with a step between them.
 * @param {ArrayLike<number>} values @param {number} [from] @param {number} [count] @param {number} [step]
 */
export function largestAt(values, from = 0, count = values.length, step = 1) {
  let most = 0;
  for (let at = 1; at < count; at += 1) if (values[from + at * step] > values[from + most * step]) most = at;
  return most;
}

/** The largest of the finite numbers, 0 at least. @param {Float32Array} values */
export function largestOf(values) {
  let largest = 0;
  for (const value of values) if (value > largest && value < Infinity) largest = value;
  return largest;
}
