// @ts-check
/** Theme, keys and language: at the end of the top bar, of pages that are served or saved. */

import { h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { turned } from "../theme.js";

const help = () => import("./help.js").then((view) => view.help());

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
