// @ts-check
/** How wide texts are, in the font of maps and pictures. */

export const FONT = 'system-ui, "Noto Sans", "Noto Sans CJK SC", sans-serif';
export const SIZE = 12;

const measure = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));

/** Pixels that a text takes. @param {string} text @param {number} [size] */
export function wide(text, size = SIZE) {
  measure.font = `${size}px ${FONT}`;
  return Math.ceil(measure.measureText(text).width);
}
