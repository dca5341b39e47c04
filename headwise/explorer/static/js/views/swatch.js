// @ts-check
/** The colour of something before its name. */

import { h } from "../dom.js";

/** @param {string} colour */
export function swatch(colour) {
  const node = h("span", { class: "swatch", "aria-hidden": "true" });
  node.style.backgroundColor = colour;
  return node;
}
