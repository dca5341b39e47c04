// @ts-check
/** The colour of a weight behind a token. */

import { SCALES, letters, ramp } from "../core/color.js";
import * as state from "../state.js";

/**
 * Puts the colour of a weight from 0 to `top` behind a token; its letters stay readable.
 * @param {HTMLElement} node @param {number} weight @param {number} [top]
 */
export function tint(node, weight, top = 1) {
  const name = state.dark.value ? "ink dark" : "ink light";
  const turn = SCALES[/** @type {keyof typeof SCALES} */ (state.scale.value)];
  const entry = Math.round(255 * turn(Math.min(1, Math.max(0, top > 0 ? weight / top : 0))));
  node.style.backgroundColor = `rgb(${ramp(name)
    .subarray(4 * entry, 4 * entry + 3)
    .join(", ")})`;
  node.style.color = letters(name, entry);
}
