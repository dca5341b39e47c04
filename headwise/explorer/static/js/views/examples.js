// @ts-check
/** Where an input comes from besides typing: the examples of the run's own data, and a file that is sent. */

import { getJson, query } from "../api.js";
import { fill, h } from "../dom.js";
import { inside } from "../inside.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { learn, t } from "../strings.js";
import { WORDS } from "../words/examples.js";
import { later } from "./later.js";
import { called } from "./naming.js";

learn(WORDS);

const MOST = 8 * 2 ** 20;

/** @param {HTMLElement} place */
export function mount(place) {
  // a page that was saved has one input
  if (inside()) return () => {};
  const select = h("select", {
    id: "examples",
    "aria-label": () => t("examples"),
    onchange: () => choose(select.value),
  });
  const others = h("span", { class: "views" });
  const list = [h("label", { for: "examples" }, () => t("examples")), select, step(-1), step(1)];
  place.append(h("div", { class: "tabs given" }, list, others));
  /** @type {any[]} */
  let listed = [];
  const choose = (/** @type {string} */ value) => {
    if (value !== "") state.give({ example: Number(value) });
  };
  return effect(() => {
    const [meta, name] = [state.meta.value, state.model.value];
    const kind = state.reads();
    fill(others, kind === "image" ? chooser() : null);
    const run = name || (meta && meta.models.length ? meta.models[0].name : "");
    if (!run) return undefined;
    let alive = true;
    let end = () => {};
    const shown = () => {
      fill(
        select,
        h("option", { value: "" }, "—"),
        listed.map((one, number) => h("option", { value: number }, told(one, number))),
      );
      select.value = state.example.peek() >= 0 ? String(state.example.peek()) : "";
    };
    const words = kind === "series" ? import("./series.js") : null;
    Promise.all([getJson(`/api/v1/examples?${query({ model: run })}`), words]).then(
      ([found, series]) => {
        if (!alive) return;
        listed = found.examples.map((/** @type {any} */ one) =>
          series ? { ...one, title: series.listed(one.title) } : one,
        );
        shown();
        // a model from elsewhere has none
        list.forEach((node) => (node.hidden = !listed.length));
        others.className = listed.length ? "views" : "";
        if (!listed.length && kind === "image") end = later(() => import("./samples.js"), place);
        // a page of pictures begins with one
        const none = state.example.peek() < 0 && !state.text.peek() && !state.upload.peek() && !state.sample.peek();
        if (none && listed.length && kind !== "text") state.instead(() => (state.example.value = found.opens || 0));
        else if (none) document.documentElement.dataset.ready = "none";
      },
      (error) => {
        if (alive) state.failed(error);
      },
    );
    const stop = effect(() => {
      select.value = state.example.value >= 0 ? String(state.example.value) : "";
    });
    return () => {
      alive = false;
      [end, stop].forEach((one) => one());
    };
  });
}

/** @param {{ title: string, label: string }} one @param {number} number */
const told = (one, number) => {
  const name = called(state.reads(), one, number);
  return name.startsWith(one.title) ? `${number}: ${name}` : name;
};

/** The next example, or the one before. @param {number} by */
function step(by) {
  const name = by > 0 ? "example_after" : "example_before";
  return h(
    "button",
    { "aria-label": () => t(name), title: () => t(name), onclick: () => turned(by) },
    by > 0 ? "→" : "←",
  );
}

/** @param {number} by */
function turned(by) {
  const select = /** @type {HTMLSelectElement} */ (document.querySelector("#examples"));
  const count = select.options.length - 1;
  if (count > 0) state.give({ example: Math.max(0, Math.min(count - 1, state.example.peek() + by)) });
}

/** A field for a file, which is sent as it is. */
function chooser() {
  const field = h("input", {
    type: "file",
    id: "file",
    accept: "image/png,image/jpeg",
    onchange: () => sent(field.files[0]),
  });
  return h("label", { class: () => (state.trace.value ? "file" : "file main") }, () => t("own_picture"), field);
}

/** @param {File | undefined} file */
function sent(file) {
  if (!file) return;
  if (file.size > MOST) {
    state.status.value = t("too_large");
    return;
  }
  const reader = new FileReader();
  reader.onload = () => state.give({ upload: String(reader.result).split(",")[1] || "" });
  reader.onerror = () => (state.status.value = t("unread"));
  reader.readAsDataURL(file);
}
