// @ts-check
/** Texts of the run to begin with, where nothing is asked for yet. */

import { getJson, query } from "../api.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/** @param {HTMLElement} place @returns {() => void} */
export function mount(place) {
  let alive = true;
  const button = (/** @type {{ title: string, text: string }} */ { title, text }) =>
    h("button", { onclick: () => state.type(text) }, h("bdi", {}, title));
  getJson(`/api/v1/cards?${query({ model: state.chosenRun().name })}`).then(
    ({ examples }) =>
      alive && fill(place, h("p", {}, t("begin_with")), h("div", { class: "tabs" }, examples.map(button))),
    // the line above says what to do
    () => {},
  );
  return () => {
    alive = false;
  };
}
