// @ts-check
/** What a layer may be looked at with in place of its own: another temperature, less of its mask; and the way back. */

import { getJson, query } from "../api.js";
import { fill, h } from "../dom.js";
import { number } from "../core/text.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/** Of the slider: powers of ten, up and down. */
const POWERS = 1;
const STEPS = 40;
/** Milliseconds that a slider has to stand still before the server is asked. */
const STILL = 120;

/** Whether anything is other than the model did it. */
export const supposed = () => state.temperature.value !== "1" || state.without.value !== "";

/** What the steps are asked for with. */
export function asked() {
  const left = state.without.value.split(",");
  const parts = ["causal", "padding"].filter((name) => left.includes(name)).map((name) => [name, "false"]);
  const temperature = state.temperature.value === "1" ? [] : [["temperature", state.temperature.value]];
  return /** @type {Record<string, string>} */ (Object.fromEntries([...temperature, ...parts]));
}

/** @param {HTMLElement} place @param {state.Trace} trace @param {string} layer @returns {() => void} */
export function mount(place, trace, layer) {
  let alive = true;
  getJson(`/api/v1/traces/${trace.trace_id}/changeable?${query({ layer })}`).then(
    (/** @type {{ temperature: boolean, masks: Record<string, number> }} */ can) => {
      if (!alive) return;
      const masks = Object.entries(can.masks).map(([name, hides]) => mask(name, hides));
      fill(
        place,
        can.temperature || masks.length || supposed()
          ? h("div", { class: "controls" }, can.temperature ? slider() : null, masks, back())
          : [],
      );
    },
    (error) => {
      if (alive) state.status.value = error.message;
    },
  );
  const note = h("p", { class: "flag", hidden: () => !supposed() }, () => t("supposed_note"));
  place.after(note);
  return () => {
    alive = false;
    fill(place);
    note.remove();
  };
}

function slider() {
  const at = () => String(Math.round((STEPS * Math.log10(Number(state.temperature.value))) / POWERS));
  let waiting = 0;
  const told = h("output", {}, () => number(Number(state.temperature.value)));
  const input = h("input", {
    type: "range",
    min: -STEPS,
    max: STEPS,
    value: at,
    "aria-label": () => t("temperature"),
    "aria-valuetext": () => number(Number(state.temperature.value)),
    oninput: () => {
      const next = String(Number((10 ** ((POWERS * Number(input.value)) / STEPS)).toPrecision(3)));
      told.textContent = next;
      clearTimeout(waiting);
      waiting = setTimeout(() => state.instead(() => (state.temperature.value = next)), STILL);
    },
  });
  return h("label", { class: "slider" }, () => t("temperature"), " τ ", input, told);
}

/** @param {string} name @param {number} hides */
function mask(name, hides) {
  const box = h("input", {
    type: "checkbox",
    checked: () => !state.without.value.split(",").includes(name),
    onchange: () => state.leaveOut(name, !box.checked),
  });
  return h("label", {}, box, () => `${t(`mask_${name}`)} (${hides ? `${t("hides")} ${hides}` : t("hides_none")})`);
}

function back() {
  return h("button", { disabled: () => !supposed(), onclick: () => state.asItWas() }, () => t("as_it_was"));
}
