// @ts-check
/** What every drawing begins with. */

/** Dots of the screen in a pixel of the page. */
export const density = () => globalThis.devicePixelRatio || 1;

/** @param {HTMLCanvasElement} canvas */
export const contextOf = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));

/** Colours of the page as a node has them. @param {Element} node @param {...string} names such as "--mark" */
export function coloursOf(node, ...names) {
  const css = getComputedStyle(node);
  return names.map((name) => css.getPropertyValue(name).trim());
}
