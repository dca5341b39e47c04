// @ts-check
/** Weights over an image: its pixels, a glow where it is looked at, the lines of the grid, the place that looks. */

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
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
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
 * @param {import("./npy.js").Numbers} weights
 * @param {number} layer
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

/** The largest weight of the places. @param {ArrayLike<number>} weights @param {Patches} axis */
export function largest(weights, axis) {
  let found = 0;
  for (let k = axis.before; k < weights.length; k += 1) if (weights[k] > found) found = weights[k];
  return found;
}

/**
 * @param {HTMLCanvasElement} canvas as large as its width and height say
 * @param {HTMLCanvasElement} image
 * @param {{ weights: ArrayLike<number> | null, axis: Patches, strength: number, covered: number[], shape: number[],
 * glow: string }} what
 * `covered`: what the grid lies over, in pixels of the image, whose own are `shape`; `strength`: from 0, the image
 * alone
 */
export function drawn(canvas, image, { weights, axis, strength, covered, shape, glow }) {
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const [w, h] = [canvas.width, canvas.height];
  context.clearRect(0, 0, w, h);
  context.imageSmoothingEnabled = false;
  const on = weights && strength > 0;
  // what is looked at stands out from a paler image
  context.globalAlpha = on ? 1 - 0.45 * strength : 1;
  context.drawImage(image, 0, 0, (w * shape[1]) / covered[1], (h * shape[0]) / covered[0]);
  if (on) {
    const [rows, columns] = axis.grid;
    const top = largest(weights, axis);
    context.fillStyle = glow;
    for (let place = 0; place < rows * columns; place += 1) {
      context.globalAlpha = top > 0 ? (strength * Math.max(0, weights[axis.before + place])) / top : 0;
      const [row, column] = [Math.floor(place / columns), place % columns];
      // in whole pixels, so that places leave no seams
      const [x, right] = [column, column + 1].map((one) => Math.round((one * w) / columns));
      const [y, below] = [row, row + 1].map((one) => Math.round((one * h) / rows));
      context.fillRect(x, y, right - x, below - y);
    }
  }
  context.globalAlpha = 1;
}

/**
 * The lines between places, and one place marked.
 * @param {HTMLCanvasElement} canvas @param {Patches} axis @param {{ lines: string | null, mark: string, chosen:
 * number, dots: number }} how
 */
export function gridded(canvas, axis, { lines, mark, chosen, dots }) {
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const [rows, columns] = axis.grid;
  const [w, h] = [canvas.width / columns, canvas.height / rows];
  if (lines) {
    context.strokeStyle = lines;
    context.globalAlpha = 0.35;
    context.lineWidth = dots / 2;
    context.beginPath();
    for (let row = 1; row < rows; row += 1) {
      context.moveTo(0, row * h);
      context.lineTo(canvas.width, row * h);
    }
    for (let column = 1; column < columns; column += 1) {
      context.moveTo(column * w, 0);
      context.lineTo(column * w, canvas.height);
    }
    context.stroke();
    context.globalAlpha = 1;
  }
  const place = chosen - axis.before;
  if (place < 0 || place >= rows * columns) return;
  context.lineWidth = 2.5 * dots;
  context.strokeStyle = mark;
  context.strokeRect((place % columns) * w, Math.floor(place / columns) * h, w, h);
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
