// @ts-check
/** The shell of a page that was saved as one file: one page of the explorer, with what it asks for inside. */

import { setRamps } from "./core/color.js";
import { fill, h } from "./dom.js";
import { controls, followTheme, foot } from "./frame.js";
import { inside } from "./inside.js";
import { pressed } from "./keys.js";
import * as state from "./state.js";
import { effect } from "./store.js";
import { learn, t } from "./strings.js";
import { worded } from "./views/series.js";
import { WORDS } from "./words/help.js";

learn(WORDS);

/** @param {import("./inside.js").Held} held @param {string} source @param {string} output */
function bar(held, source, output) {
  return h(
    "header",
    {},
    h("strong", { class: "brand" }, "Headwise"),
    held.page === "attend"
      ? null
      : h("p", { class: "said" }, h("bdi", {}, source), source && output ? " → " : "", h("bdi", {}, output)),
    controls(),
  );
}

/** A page inside another one has no address of its own. @param {string} page @param {string} address */
function follow(page, address) {
  if (location.protocol !== "about:") {
    if (!location.hash) history.replaceState(null, "", address || `#/${page}`);
    state.followAddress();
  }
  state.page.value = page;
}

/** @param {{ mount: (place: HTMLElement) => () => void }} page */
export function begin(page) {
  const held = inside();
  if (!held) return;
  const main = h("main", { id: "main", tabindex: -1 });
  const keys = held.page === "attend" ? h("p", { class: "note" }, () => t("keys")) : null;
  setRamps(held.ramps);
  follow(held.page, held.address);
  // what is written has no trace, but an input
  const trace = held.trace?.places?.kind === "series" ? worded(held.trace) : held.trace;
  const { source, output } = trace || { source: state.text.peek(), output: "" };
  fill(
    /** @type {Element} */ (document.querySelector("#app")),
    bar(held, source, output),
    h("div", { class: "whole" }, main, keys),
    foot(),
  );
  document.documentElement.dataset.alone = held.page;
  followTheme();
  effect(() => {
    document.documentElement.lang = state.language.value === "zh" ? "zh-Hans" : "en";
  });
  // what heads are needed for only a model can say
  state.VIEWS.splice(state.VIEWS.indexOf("needs"), 1);
  state.meta.value = held.meta;
  state.trace.value = trace;
  page.mount(main);
  document.addEventListener("keydown", pressed);
}
