// @ts-check
/** What is around a page, served or saved: theme, keys and language above it, what happens at its foot. */

import { h } from "./dom.js";
import * as state from "./state.js";
import { t } from "./strings.js";

const THEMES = ["", "light", "dark"];
const system = window.matchMedia("(prefers-color-scheme: dark)");

/** The next of the three. */
function turned() {
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

const help = () => import("./views/help.js").then((view) => view.help());

/** @returns {HTMLElement[]} */
export const controls = () => [
  h("button", { class: "plain", onclick: turned, "aria-label": () => t("theme") }, "◐"),
  h(
    "button",
    { class: "plain", onclick: help, title: () => t("keys_title"), "aria-label": () => t("keys_title") },
    "?",
  ),
  h(
    "button",
    { class: "plain", onclick: () => (state.language.value = state.language.value === "zh" ? "" : "zh") },
    () => t("language"),
  ),
];

export const foot = () =>
  h(
    "p",
    {
      class: () => (state.status.value === state.heard.value ? "status unseen" : "status"),
      role: "status",
      "aria-live": "polite",
    },
    () => state.status.value,
  );
