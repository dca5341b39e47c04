// @ts-check
/** What every drawing begins with. */

/** Dots of the screen in a pixel of the page. */
export const density = () => globalThis.devicePixelRatio || 1;

/** @param {HTMLCanvasElement} canvas */
export const contextOf = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));

/**
 * Gives a canvas the dots of the screen; what draws on it, in pixels of the page.
 * @param {HTMLCanvasElement} canvas @param {number} [width] pixels @param {number} [height] @param {number} [dots]
 */
export function sharp(canvas, width = canvas.clientWidth, height = canvas.clientHeight, dots = density()) {
  [canvas.width, canvas.height] = [Math.round(width * dots), Math.round(height * dots)];
  const context = contextOf(canvas);
  context.scale(dots, dots);
  return context;
}

/** A line. @param {CanvasRenderingContext2D} context @param {number[]} from @param {number[]} to */
export function segment(context, [x, y], [right, down]) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(right, down);
  context.stroke();
}

/** Colours of the page as a node has them. @param {Element} node @param {...string} names such as "--mark" */
export function coloursOf(node, ...names) {
  const css = getComputedStyle(node);
  return names.map((name) => css.getPropertyValue(name).trim());
}

export const FONT = 'system-ui, "Noto Sans", "Noto Sans CJK SC", sans-serif';
export const SIZE = 12;

const measure = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));

/** Pixels that a text takes. @param {string} text @param {number} [size] */
export function wide(text, size = SIZE) {
  measure.font = `${size}px ${FONT}`;
  return Math.ceil(measure.measureText(text).width);
}
