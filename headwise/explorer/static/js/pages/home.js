// @ts-check
/** What is served, and where to begin. */

import { fill, h } from "../dom.js";
import { effect } from "../store.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { WORDS } from "../words/home.js";

learn(WORDS);

/** @param {HTMLElement} place @returns {() => void} */
export function mount(place) {
  return effect(() => {
    const meta = state.meta.value;
    if (!meta) return;
    const cards = meta.models.map((/** @type {any} */ one) =>
      h(
        "li",
        { class: "card" },
        h("button", { class: "choose", onclick: () => choose(one.name) }, one.name),
        h("p", {}, `${one.task} · ${one.model}`),
      ),
    );
    fill(
      place,
      h("h1", {}, () => t("welcome")),
      h("p", {}, () => t("type")),
      h("h2", {}, () => t("models")),
      h("ul", { class: "cards" }, cards),
      h("p", { class: "note" }, () => t("note")),
      h("p", { class: "note" }, () => t("keys")),
    );
  });
}

/** @param {string} name */
function choose(name) {
  state.pick(name);
  // what is not typed is chosen from a list
  if (state.reads() !== "text") {
    state.page.value = state.best();
    return;
  }
  const input = /** @type {HTMLInputElement | null} */ (document.querySelector("#input"));
  if (input) input.focus();
}
