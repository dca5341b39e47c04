// @ts-check
/** The keys there are, in a dialog; those of one letter can be switched off. */

import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { WORDS } from "../words/help.js";

learn(WORDS);

/** What is pressed, and the name of what it does. @type {[string, string][]} */
const KEYS = [
  ["↑ ↓ ← →", "key_move"],
  ["Shift ↑ ↓ ← →", "key_far"],
  ["Home End", "key_ends"],
  ["[ ]", "key_layer"],
  [", .", "key_head"],
  ["g", "key_group"],
  ["v", "key_view"],
  ["n", "key_scale"],
  ["r", "key_scores"],
  ["w", "key_words"],
  ["s", "key_special"],
  ["+ - 0", "key_zoom"],
  ["/", "key_input"],
  ["Esc", "key_unlock"],
  ["Space", "key_play"],
  ["← → Home End", "key_steps"],
  ["?", "key_help"],
];

export function help() {
  const open = document.querySelector("dialog.help");
  if (open) return open.remove();
  const close = () => dialog.close();
  const single = h("input", {
    type: "checkbox",
    checked: () => state.singles.value,
    onchange: () => state.letters(single.checked),
  });
  const dialog = h("dialog", { class: "help", "aria-label": () => t("keys_title"), onclose: () => ended(dialog) });
  const rows = KEYS.map(([key, name]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("kbd", {}, key)),
      h("td", {}, () => t(name)),
    ),
  );
  dialog.append(
    h("h2", {}, () => t("keys_title")),
    h("div", { class: "scrolls", tabindex: 0 }, h("table", { class: "places" }, h("tbody", {}, rows))),
    h("label", { class: "controls" }, single, () => t("singles")),
    h("p", {}, () => t("pointer_note")),
    h("button", { onclick: close }, () => t("close")),
  );
  document.body.append(dialog);
  dialog.showModal();
}

/** @param {HTMLElement} dialog */
function ended(dialog) {
  fill(dialog);
  dialog.remove();
}
