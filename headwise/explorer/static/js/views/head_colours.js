// @ts-check
/** Colours of heads that are shown together: at most eight, of Okabe and Ito, as the style sheet has them. */

import { COLOURED } from "../core/color.js";
import * as state from "../state.js";

/** Of the light and of the dark. @type {Map<boolean, string[]>} */
const known = new Map();

/** The colours of eight heads, as a canvas draws them in the theme of the page as it is now. */
export function headColours() {
  const dark = state.dark.peek();
  const colours = known.get(dark) || probed();
  known.set(dark, colours);
  return colours;
}

function probed() {
  const probe = document.createElement("i");
  document.body.append(probe);
  probe.style.color = "var(--of-head)";
  const colours = Array.from({ length: COLOURED }, (_, place) => {
    probe.className = `of-head-${place}`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return colours;
}
