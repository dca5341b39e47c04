// @ts-check
/** What stands where a run has no film: what a film is, the runs that have one, and the commands that make one. */

import { colour } from "../core/color.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { phrase, t } from "../strings.js";
import { again, filmed } from "./again.js";
import { offers } from "./fitting.js";

/** Frames of a head that learns to read backwards, how sharply it looks, and the tokens that it reads. */
const [SHARP, TOKENS, SIDE] = [[0, 0.4, 1.6, 6], 6, 84];

/** @param {HTMLElement} place @param {string} name of the run @param {string[]} filmed runs */
export function mount(place, name, filmed) {
  const end = effect(() => {
    const runs = state.meta.value.models;
    const run = runs.find((/** @type {any} */ one) => one.name === name);
    const others = runs.filter((/** @type {any} */ one) => filmed.includes(one.name));
    fill(
      place,
      h("p", { class: "state" }, t("film_is")),
      h("div", { class: "frames-drawn" }, SHARP.map(frame)),
      h("p", { class: "note" }, t("film_drawn")),
      others.length ? [h("h2", {}, t("film_others")), offers(others)] : "",
      commands(name, run.trained),
    );
    document.documentElement.dataset.ready = "film/none";
  });
  return () => {
    end();
    fill(place);
  };
}

/** @param {string} name @param {boolean} trained here, so that its recipe lies in its folder */
function commands(name, trained) {
  // broken between its words alone
  const words = (/** @type {string} */ text) => text.split(" ").flatMap((word) => [h("span", {}, word), " "]);
  const code = (/** @type {string} */ text) => h("p", { class: "copied" }, h("code", {}, words(text)));
  const strong = h("b", {}, h("bdi", {}, name));
  return [
    h("h2", {}, phrase(trained ? "film_lacks" : "film_foreign", strong)),
    h("p", {}, trained ? phrase("film_again", h("bdi", {}, name)) : t("film_small")),
    trained
      ? code(again(name, "film.every=50"))
      : [
          code("headwise data make reverse"),
          code(`headwise train reverse film.every=10 --run-folder ${filmed("reverse")}`),
        ],
    h("p", {}, t("film_then")),
    code(`headwise explore ${filmed(trained ? name : "reverse")}`),
  ].flat();
}

/** A frame of an attention map that grows sharp. @param {number} sharp */
function frame(sharp) {
  const canvas = h("canvas", { width: TOKENS, height: TOKENS, "aria-hidden": "true" });
  canvas.style.cssText = `width: ${SIDE}px; height: ${SIDE}px; image-rendering: pixelated`;
  const pen = canvas.getContext("2d");
  const ramp = state.inks();
  for (let q = 0; q < TOKENS; q += 1) {
    const powers = Array.from({ length: TOKENS }, (_, k) => Math.exp(-sharp * Math.abs(TOKENS - 1 - q - k)));
    const sum = powers.reduce((all, power) => all + power, 0);
    powers.forEach((power, k) => {
      pen.fillStyle = colour(ramp, Math.round(255 * Math.sqrt(power / sum)));
      pen.fillRect(k, q, 1, 1);
    });
  }
  return canvas;
}
