// @ts-check
/** Light, dark, or as the system has it. */

import * as state from "./state.js";

const THEMES = ["", "light", "dark"];
const system = window.matchMedia("(prefers-color-scheme: dark)");

/** The next of the three. */
export function turned() {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme || "") + 1) % THEMES.length];
  if (next) root.dataset.theme = next;
  else delete root.dataset.theme;
  coloured();
}

/** Follows the system from now on. */
export function followTheme() {
  coloured();
  system.addEventListener("change", coloured);
}

/** Tells whether the page is dark now. */
function coloured() {
  const theme = document.documentElement.dataset.theme;
  state.dark.value = theme ? theme === "dark" : system.matches;
}
