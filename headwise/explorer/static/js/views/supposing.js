// @ts-check
/** What a layer may be looked at with in place of its own: another scale, temperature or mask; and the way back. */

import { getJson, query } from "../api.js";
import { fill, h } from "../dom.js";
import { number } from "../core/text.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { supposed } from "./tracing.js";

/** Of the slider: powers of ten, up and down. */
const POWERS = 1;
const STEPS = 40;
/** Milliseconds that a slider has to stand still before the server is asked. */
const STILL = 120;

/**
 * What may be supposed: `scaled` is null where there is no scale, `causal` says whether such a mask may be put in,
 * `masks` how many pairs each part of its own hides.
 * @typedef {{ temperature: boolean, scaled: boolean | null, causal: boolean,
 *   masks: Record<string, number> }} Changeable
 */
/** The worked example without a run. @type {Changeable} */
const TEXTBOOK = { temperature: true, scaled: false, causal: true, masks: {} };

/**
 * @param {HTMLElement} place
 * @param {state.Trace | null} trace null: the worked example
 * @param {string} layer
 * @param {number} width of a head
 */
export function mount(place, trace, layer, width) {
  let alive = true;
  const path = trace && `/api/v1/traces/${trace.trace_id}/changeable?${query({ layer })}`;
  Promise.resolve(path ? getJson(path) : TEXTBOOK).then(
    (can) => {
      if (!alive) return;
      const masks = Object.entries(can.masks).flatMap(([name, hides]) => (hides ? [mask(name, hides)] : []));
      const changes = [
        can.scaled === null ? null : scale(can.scaled, width),
        masks,
        can.causal ? put() : null,
        can.temperature ? slider() : null,
      ].flat();
      fill(place, changes.some(Boolean) || supposed() ? [...changes, back()] : []);
    },
    (error) => {
      if (alive) state.failed(error);
    },
  );
  return () => {
    alive = false;
  };
}

/** @param {() => boolean} checked @param {(on: boolean) => void} change @param {() => any} words */
function box(checked, change, words, title = () => "") {
  const input = h("input", { type: "checkbox", checked, onchange: () => change(input.checked) });
  return h("label", { title }, input, words);
}

/** @param {boolean} own whether the layer scales @param {number} width of a head */
const scale = (own, width) =>
  box(
    () => (state.scaling.value ? state.scaling.value === "on" : own),
    (on) => (state.scaling.value = on === own ? "" : on ? "on" : "off"),
    () => `÷ √${width}`,
  );

const put = () =>
  box(
    () => state.causal.value === "1",
    (on) => (state.causal.value = on ? "1" : ""),
    () => t("mask_causal"),
  );

/** @param {string} name @param {number} hides */
const mask = (name, hides) =>
  box(
    () => !state.without.value.split(",").includes(name),
    (on) => state.leaveOut(name, !on),
    () => `${t(`mask_${name}`)} (${hides})`,
    () => t("hides", hides),
  );

function slider() {
  const at = () => String(Math.round((STEPS * Math.log10(Number(state.temperature.value))) / POWERS));
  let waiting = 0;
  const shown = h("output", {}, () => number(Number(state.temperature.value)));
  const input = h("input", {
    type: "range",
    min: -STEPS,
    max: STEPS,
    value: at,
    "aria-label": () => t("temperature"),
    "aria-valuetext": () => number(Number(state.temperature.value)),
    oninput: () => {
      const next = String(Number((10 ** ((POWERS * Number(input.value)) / STEPS)).toPrecision(3)));
      shown.textContent = next;
      clearTimeout(waiting);
      waiting = setTimeout(() => state.instead(() => (state.temperature.value = next)), STILL);
    },
  });
  return h("label", { class: "slider" }, () => t("temperature"), " τ ", input, shown);
}

function back() {
  return h("button", { hidden: () => !supposed(), onclick: () => state.asItWas() }, () => t("as_it_was"));
}
