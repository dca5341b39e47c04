// @ts-check
/** The shell of a page that was saved as one file: the views of attention, with all that they ask for inside. */

import { setRamps } from "./core/color.js";
import { fill, h } from "./dom.js";
import { inside } from "./inside.js";
import { pressed } from "./keys.js";
import * as attend from "./pages/attend.js";
import * as state from "./state.js";
import { effect } from "./store.js";
import { t } from "./strings.js";
import { followTheme, turned } from "./theme.js";
import { help } from "./views/help.js";

/** @param {string} source @param {string} output */
function bar(source, output) {
  return h(
    "header",
    {},
    h("strong", { class: "brand" }, "Headwise"),
    h("p", { class: "said" }, [source, output].filter(Boolean).join(" → ")),
    h("button", { class: "plain", onclick: turned, "aria-label": () => t("theme") }, "◐"),
    h("button", { class: "plain", onclick: help, title: () => t("keys_title"), "aria-label": () => t("keys_title") }, "?"),
    h("button", { class: "plain", onclick: () => (state.language.value = state.language.value === "zh" ? "" : "zh") }, () => t("language")),
  );
}

/** A page inside another one has no address of its own. */
function follow() {
  if (location.protocol !== "about:") {
    if (!location.hash) history.replaceState(null, "", "#/attend");
    state.followAddress();
  }
  state.page.value = "attend";
}

function begin() {
  const held = inside();
  if (!held) return;
  const main = h("main", { id: "main", tabindex: -1 });
  const line = h("p", { class: "status", role: "status", "aria-live": "polite" }, () => state.status.value);
  const keys = h("p", { class: "note" }, () => t("keys"));
  const { source, output } = held.trace;
  fill(/** @type {Element} */ (document.querySelector("#app")), bar(source, output), h("div", { class: "whole" }, main, keys), line);
  followTheme();
  setRamps(held.ramps);
  follow();
  effect(() => {
    document.documentElement.lang = state.language.value === "zh" ? "zh-Hans" : "en";
  });
  // what heads are needed for only a model can say
  state.VIEWS.splice(state.VIEWS.indexOf("needs"), 1);
  state.trace.value = held.trace;
  attend.mount(main);
  document.addEventListener("keydown", pressed);
}

begin();
