// @ts-check
/** Weights over an image: its pixels in grey, weights as colours of a ramp, lines of the grid, chosen places. */

import { contextOf } from "./canvas.js";
import { signed } from "./color.js";
import { painted } from "./heatmap.js";

/** The colour of weights over a picture in grey, and what their bar shows it over: bright and dark places of it. */
const [GLOW, BACKS] = [
  [43, 140, 255],
  ["#ffffff", "#333333"],
];
/** Letters of a word that says what is on a picture, at least. */
const TELLING = 3;

/** The word with which a caption opens: the first that is no article. @param {string[]} words */
export const firstWord = (words) =>
  Math.max(
    0,
    words.findIndex((word) => word.trim().length >= TELLING),
  );

/** @type {WeakMap<HTMLCanvasElement, HTMLCanvasElement>} */
const greys = new WeakMap();

/** @typedef {{ grid: number[], before: number }} Patches */

/**
 * Pixels of 1, 3 or 4 channels as a canvas; of any other number their mean.
 * @param {import("./npy.js").Numbers} image
 */
export function picture(image) {
  const [height, width, channels] = image.shape;
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = contextOf(canvas);
  const found = context.createImageData(width, height);
  for (let i = 0; i < width * height; i += 1) {
    const pixel = image.data.subarray(i * channels, (i + 1) * channels);
    let grey = 0;
    for (const value of pixel) grey += value / channels;
    const colours = channels === 3 || channels === 4 ? pixel : [grey, grey, grey];
    for (let part = 0; part < 3; part += 1) found.data[4 * i + part] = colours[part];
    found.data[4 * i + 3] = channels === 4 ? pixel[3] : 255;
  }
  context.putImageData(found, 0, 0);
  return canvas;
}

/**
 * The weights of one head, or the mean of all heads of a layer.
 * @param {import("./npy.js").Numbers} weights @param {number} layer
 * @param {number} head -1: the mean
 */
export function of(weights, layer, head) {
  const [, heads, keys] = weights.shape;
  const at = (/** @type {number} */ one) =>
    weights.data.subarray((layer * heads + one) * keys, (layer * heads + one + 1) * keys);
  if (head >= 0) return at(head);
  const found = new Float32Array(keys);
  for (let one = 0; one < heads; one += 1) at(one).forEach((value, k) => (found[k] += value / heads));
  return found;
}

/** The size of the largest weight of the places. @param {ArrayLike<number>} weights @param {Patches} axis */
export function largest(weights, axis) {
  let found = 0;
  for (let k = axis.before; k < weights.length; k += 1) found = Math.max(found, Math.abs(weights[k]));
  return found;
}

/** Whether a picture has colours, which the grey below the weights hides. @param {HTMLCanvasElement} image */
export function coloured(image) {
  const { data } = readable(image).getImageData(0, 0, image.width, image.height);
  for (let at = 0; at < data.length; at += 4) if (data[at] !== data[at + 1] || data[at] !== data[at + 2]) return true;
  return false;
}

/** A picture in shades of grey, as eyes weigh its colours. @param {HTMLCanvasElement} image */
function grey(image) {
  const known = greys.get(image);
  if (known) return known;
  const context = readable(image);
  const pixels = context.getImageData(0, 0, image.width, image.height);
  for (let at = 0; at < pixels.data.length; at += 4) {
    const [red, green, blue] = pixels.data.subarray(at, at + 3);
    pixels.data.fill(0.299 * red + 0.587 * green + 0.114 * blue, at, at + 3);
  }
  context.putImageData(pixels, 0, 0);
  greys.set(image, context.canvas);
  return context.canvas;
}

/** A copy of a picture, in memory where its pixels are read. @param {HTMLCanvasElement} image */
function readable(image) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  context.drawImage(image, 0, 0);
  return context;
}

/** The place of the largest weight, class tokens left out. @param {ArrayLike<number>} weights @param {Patches} axis */
export function most(weights, axis) {
  let best = axis.before;
  for (let k = axis.before; k < weights.length; k += 1) if (weights[k] > weights[best]) best = k;
  return best;
}

/**
 * The head of a layer that looks at the fewest places, of those that look at the picture and not past it.
 * @param {import("./npy.js").Numbers} weights @param {number} layer @param {Patches} axis
 */
export function sharpest(weights, layer, axis) {
  const sharp = Array.from({ length: weights.shape[1] }, (_, head) => {
    const places = Array.from(of(weights, layer, head)).slice(axis.before);
    const sum = places.reduce((all, weight) => all + weight, 0);
    const entropy = places.reduce((all, weight) => all - (weight > 0 ? (weight / sum) * Math.log(weight / sum) : 0), 0);
    return sum > 0.5 ? entropy : Infinity;
  });
  return sharp.indexOf(Math.min(...sharp));
}

/**
 * Numbers from 0 to 1 as one colour that covers as much as they say.
 * @param {number[]} shares @param {number} rows @param {number} columns
 */
function glowing(shares, rows, columns) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [columns, rows];
  const context = contextOf(canvas);
  const image = context.createImageData(columns, rows);
  shares.forEach((share, at) => image.data.set([...GLOW, Math.round(255 * share)], 4 * at));
  context.putImageData(image, 0, 0);
  return canvas;
}

/** The bar of these colours, from 0 to the largest weight, over bright and over dark. @param {number} strength */
export function glowBar(strength) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [256, BACKS.length];
  const context = contextOf(canvas);
  const shares = Array.from({ length: 256 }, (_, at) => at / 255);
  BACKS.forEach((back, row) => {
    context.globalAlpha = 1;
    context.fillStyle = back;
    context.fillRect(0, row, 256, 1);
    context.globalAlpha = strength;
    context.drawImage(glowing(shares, 1, 256), 0, row);
  });
  return canvas;
}

/**
 * A weight covers the grey picture by its share of the largest one; numbers with signs have a ramp.
 * @param {HTMLCanvasElement} canvas as large as its width and height say
 * @param {HTMLCanvasElement} image
 * @param {{ weights: ArrayLike<number> | null, axis: Patches, strength: number, covered: number[], shape: number[],
 * ramp: string, signs?: boolean }} what
 * `signs`: zero is in the middle of the ramp; `covered`: what the grid lies over, in pixels of the image, whose own are
 * `shape`; `strength`: 0 is the image alone, in its colours
 */
export function drawn(canvas, image, { weights, axis, strength, covered, shape, ramp, signs }) {
  const context = contextOf(canvas);
  const [w, h] = [canvas.width, canvas.height];
  context.clearRect(0, 0, w, h);
  context.imageSmoothingEnabled = false;
  const on = weights && strength > 0;
  context.drawImage(on ? grey(image) : image, 0, 0, (w * shape[1]) / covered[1], (h * shape[0]) / covered[0]);
  if (!on) return;
  const [rows, columns] = axis.grid;
  const places = Array.from({ length: rows * columns }, (_, place) => weights[axis.before + place]);
  context.globalAlpha = strength;
  const high = largest(weights, axis);
  const cells = signs
    ? painted(signed(places, largest(weights, axis), "linear"), rows, columns, ramp)
    : glowing(
        places.map((weight) => (high > 0 ? Math.max(0, weight) / high : 0)),
        rows,
        columns,
      );
  context.drawImage(cells, 0, 0, w, h);
  context.globalAlpha = 1;
}

/**
 * The lines between places, and places marked: the one that looks, and one that is looked at.
 * @param {HTMLCanvasElement} canvas @param {Patches} axis
 * @param {{ lines: boolean, marks: [number, string][], page: string, dots: number }} how
 */
export function gridded(canvas, axis, { lines, marks, page, dots }) {
  const context = contextOf(canvas);
  const [rows, columns] = axis.grid;
  const [w, h] = [canvas.width / columns, canvas.height / rows];
  if (lines) {
    context.globalAlpha = 0.3;
    context.beginPath();
    for (let row = 1; row < rows; row += 1) {
      context.moveTo(0, row * h);
      context.lineTo(canvas.width, row * h);
    }
    for (let column = 1; column < columns; column += 1) {
      context.moveTo(column * w, 0);
      context.lineTo(column * w, canvas.height);
    }
    // seen on the dark and on the bright parts of a picture
    for (const [wide, colour] of /** @type {[number, string][]} */ ([
      [1.5, "#ffffff"],
      [0.5, "#000000"],
    ])) {
      context.lineWidth = wide * dots;
      context.strokeStyle = colour;
      context.stroke();
    }
    context.globalAlpha = 1;
  }
  for (const [key, ink] of marks) {
    const place = key - axis.before;
    if (place < 0 || place >= rows * columns) continue;
    // seen on the dark and on the bright parts of a picture
    for (const [wide, colour] of /** @type {[number, string][]} */ ([
      [4.5, page],
      [3, ink],
    ])) {
      context.lineWidth = wide * dots;
      context.strokeStyle = colour;
      context.strokeRect((place % columns) * w, Math.floor(place / columns) * h, w, h);
    }
  }
}

/**
 * The place under a pointer, counted after class tokens; -1 beside the image.
 * @param {HTMLCanvasElement} canvas @param {MouseEvent} event @param {Patches} axis
 */
export function under(canvas, event, axis) {
  const box = canvas.getBoundingClientRect();
  const [rows, columns] = axis.grid;
  const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
  const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
  return row >= 0 && row < rows && column >= 0 && column < columns ? axis.before + row * columns + column : -1;
}
