// @ts-check
/** Drawings whose colours are those of the page, light or dark. */

import { effect } from "../store.js";
import * as state from "../state.js";

/**
 * Draws again in other colours, as long as the canvas is there.
 * @param {() => void} draw @param {HTMLElement} canvas
 */
export function followDark(draw, canvas) {
  let end = () => {};
  end = effect(() => {
    void state.dark.value;
    // what ends an effect is known once it has run
    if (!canvas.isConnected) queueMicrotask(() => end());
    else draw();
  });
}
