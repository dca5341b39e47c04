// @ts-check
/** Inputs of the run to begin with, where nothing is asked for yet: the cards of Home. */

import { getJson, query } from "../api.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import * as examples from "./example_cards.js";

/** @param {HTMLElement} place @param {string} [why] the words above them @param {...string} names in these words */
export function mount(place, why = "begin_with", ...names) {
  let alive = true;
  let end = () => {};
  const cards = h("div", { class: "examples" });
  const path = "/static/css/cards.css";
  if (!document.querySelector(`link[href="${path}"]`))
    document.head.append(h("link", { rel: "stylesheet", href: path }));
  getJson(`/api/v1/cards?${query({ model: state.chosenRun().name })}`)
    .then(async (run) => {
      // another page has other pictures
      const reads = state.page.peek() === "attend" && (await import("../words/reads.js"));
      if (reads) learn(reads.WORDS);
      if (!alive || !run.stages.length || !run.examples.length) return;
      fill(place, h("p", {}, t(why, ...names)), reads ? h("p", { class: "note" }, t(`read_${run.input}`)) : "", cards);
      end = examples.mount(cards, run);
    })
    // without cards the line above says what to do
    .catch(() => {})
    .then(() => {
      if (!alive) return;
      place.classList.remove("awaited");
      document.documentElement.dataset.ready = "begin";
    });
  return () => {
    alive = false;
    end();
  };
}
