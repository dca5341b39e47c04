// @ts-check
/** At which step of its training a run is looked at: its checkpoints as a list, and the way there from its film. */

import { getJson, query } from "../api.js";
import { h } from "../dom.js";
import { inside } from "../inside.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { learn, t } from "../strings.js";
import { WORDS } from "../words/checkpoints.js";

learn(WORDS);

/** The steps of which a run keeps a checkpoint. @param {string} model @returns {Promise<number[]>} */
export const stepsOf = async (model) => (await getJson(`/api/v1/checkpoints?${query({ model })}`)).steps;

/** A list of the checkpoints of the chosen run, where it has several. @param {HTMLElement} place */
export function mount(place) {
  const select = h("select", {
    "aria-label": () => t("checkpoint"),
    onchange: () => (state.checkpoint.value = Number(select.value)),
  });
  const node = h("label", { hidden: true }, () => `${t("checkpoint")} `, select);
  place.append(node);
  const end = effect(() => {
    const [run, now] = [state.chosenRun(), state.checkpoint.value];
    void state.language.value;
    node.hidden = true;
    if (!run || inside()) return undefined;
    let alive = true;
    stepsOf(run.name).then(
      (steps) => {
        if (!alive || steps.length < 2) return;
        const option = (/** @type {number} */ step) =>
          h("option", { value: step, selected: step === now }, step < 0 ? t("trained") : String(step));
        select.replaceChildren(...[...steps, -1].map(option));
        node.hidden = false;
      },
      () => {},
    );
    return () => {
      alive = false;
    };
  });
  return () => {
    end();
    node.remove();
  };
}

/**
 * The address at which Trace shows a head of a film at the checkpoint that is nearest to a step.
 * @param {number[]} steps of the checkpoints @param {number} step
 * @param {{ source: string, target: string | null }} probe
 * @param {{ name: string }[]} layers of the film @param {string} layer @param {number} head
 */
export function toTrace(steps, step, probe, layers, layer, head) {
  const near = steps.reduce((best, one) => (Math.abs(one - step) < Math.abs(best - step) ? one : best));
  const kind = (/** @type {string} */ name) => name.replace(/\d+/g, "");
  const at = layers.filter(({ name }) => kind(name) === kind(layer)).findIndex(({ name }) => name === layer);
  const part = layer.split(".").find((name) => ["encoder", "decoder"].includes(name));
  const group = part ? `${part} ${/cross/.test(layer) ? "cross" : "self"}` : "";
  const values = {
    m: state.model.value,
    x: probe.source,
    g: group,
    l: at,
    h: head,
    ck: near,
    lang: state.language.value,
  };
  return {
    near,
    href: `#/trace?${query(Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "")))}`,
  };
}
