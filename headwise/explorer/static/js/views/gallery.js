// @ts-check
/** Small pictures of the pairs that each mask allows, and of what each mechanism's values count for. */

import { getJson, getNumbers } from "../api.js";
import { fill, h } from "../dom.js";
import { effect } from "../store.js";
import { painted } from "../core/heatmap.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/** @param {HTMLElement} place */
export function mount(place) {
  let alive = true;
  let end = () => {};
  Promise.all([getJson("/api/v1/patterns"), getNumbers("/api/v1/patterns/pairs")]).then(([told, pictures]) => {
    if (alive) end = effect(() => drawn(place, told.patterns, pictures));
  }, state.failed);
  return () => {
    alive = false;
    end();
  };
}

/** @param {HTMLElement} place @param {any[]} known @param {import("../core/npy.js").Numbers} pictures */
function drawn(place, known, pictures) {
  const [, rows, columns] = pictures.shape;
  const name = state.inks();
  const card = (/** @type {any} */ one, /** @type {number} */ at) => {
    const entries = Int16Array.from(pictures.data.subarray(at * rows * columns, (at + 1) * rows * columns));
    const canvas = painted(entries, rows, columns, name);
    canvas.className = "pattern";
    const order = one.time ? `${t("time")} ${one.time}; ${t("memory")} ${one.memory}` : "";
    return h(
      "li",
      {},
      canvas,
      h("b", {}, one.name.replaceAll("_", " ")),
      h("code", {}, one.text),
      order ? h("span", { class: "side" }, order) : null,
    );
  };
  const part = (/** @type {string} */ kind) =>
    known.map((one, at) => (one.kind === kind ? card(one, at) : null)).filter(Boolean);
  fill(
    place,
    h("summary", {}, h("h2", {}, t("pairs"))),
    h(
      "p",
      { class: "side" },
      `${t("masknote")} · ${t("row")}: ${t("attends_from")} · ${t("column")}: ${t("attends_to")}`,
    ),
    h("ul", { class: "gallery" }, part("mask")),
    h("p", { class: "side" }, t("mechanismnote")),
    h("ul", { class: "gallery" }, part("mechanism")),
  );
  document.documentElement.dataset.gallery = String(known.length);
}
