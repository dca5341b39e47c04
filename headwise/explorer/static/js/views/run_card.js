// @ts-check
/** The card of a run: what it was trained for, its model as blocks with their heads, its data and its metrics. */

import { COLOURED } from "../core/color.js";
import { decimals, number } from "../core/text.js";
import { fill, h } from "../dom.js";
import { knows, learn, named, t } from "../strings.js";
import { WORDS as ADOPTED } from "../words/adopted.js";
import { WORDS } from "../words/metrics.js";

learn(WORDS);
learn(ADOPTED);

/** Metrics of 0 to 100; those of 0 to 1 have three decimals. */
const HUNDRED = new Set(["bleu", "chrf", "wer", "cer", "ter"]);

/** Tasks whose accuracy is of the next token. */
const WRITERS = new Set(["translate", "summarise", "dialogue", "language-model", "caption", "transcribe"]);

/** @typedef {{ kind: string, causal?: boolean, heads?: number, width?: number, layers?: number }} Part */
/** @typedef {{ name: string, count: number, parts: Part[] }} Stage */

/** @param {HTMLElement} place @param {any} run */
export function mount(place, run) {
  fill(
    place,
    h("div", { class: "heading" }, h("h2", {}, run.model), h("span", { class: "side" }, kindOf(run))),
    run.adopted ? h("p", {}, t(isA(run))) : null,
    run.stages.length ? drawing(run) : h("p", {}, t("no_attention_model")),
    h("dl", { class: "measures" }, facts(run)),
    Object.keys(run.metrics).length ? h("p", { class: "note" }, t("validated")) : null,
  );
}

/** What a run is: its task; of a model from elsewhere also that. @param {any} run */
const kindOf = ({ task, adopted }) => (adopted ? `${t("adopted")} · ${named("task", task)}` : named("task", task));

/** The word for what a model from elsewhere does. @param {any} run */
const isA = ({ task, input, adopted: { kind } }) =>
  knows(`is_${task}`) ? `is_${task}` : kind === "encoder" && input === "image" ? "is_image" : `is_${kind}`;

/** What a model from elsewhere is, and how large. @param {any} adopted @param {Stage[]} stages @param {string} name */
function itself(adopted, stages, name) {
  if (!adopted) return [];
  const layers = stages.flatMap(({ count, parts }) =>
    parts.filter(({ heads }) => heads).map(({ heads }) => [count, heads]),
  );
  const tokens = (/** @type {number} */ count) => t("tokens_n", count.toLocaleString("en"));
  const known = (/** @type {string} */ title, /** @type {any} */ value) => (value ? [[t(title), value]] : []);
  return [
    ...known("model_class", adopted.class),
    ...known("layers_heads", layers.map((sizes) => sizes.join(" × ")).join(", ")),
    ...known("model_width", adopted.width),
    ...known("vocabulary", adopted.vocabulary && tokens(adopted.vocabulary)),
    ...known("reads_most", adopted.reads && tokens(adopted.reads)),
    ...known("origin", adopted.origin !== name && adopted.origin),
  ];
}

/** @param {any} run */
function facts({ model, task, parameters, data, step, metrics, stages, settings, adopted }) {
  let count = 0;
  for (const stage of stages) for (const part of stage.parts) count += stage.count * (part.heads || 0);
  const pairs = [
    ...itself(adopted, stages, model),
    [t("parameters"), parameters.toLocaleString("en")],
    ...(adopted ? [] : [[t("attention_heads"), count.toLocaleString("en")]]),
    ...(settings?.["model.d_model"] ? [[t("model_width"), settings["model.d_model"]]] : []),
    ...data.map((/** @type {string} */ name) => [t("data"), name]),
    ...(step ? [[t("trained_for"), t("steps_of_training", step.toLocaleString("en"))]] : []),
    ...Object.entries(metrics).map(([name, value]) => [
      WRITERS.has(task) && name === "accuracy" ? t("token_accuracy") : named("metric", name),
      metric(name, Number(value)),
    ]),
  ];
  return pairs.map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value)));
}

/** A metric as it is read. @param {string} name @param {number} value */
export function metric(name, value) {
  if (HUNDRED.has(name)) return value.toFixed(1);
  return Math.abs(value) <= 1 ? decimals(value, 3) : number(value);
}

/** The model from what it reads to what it answers. @param {{ stages: Stage[], adopted?: { kind: string } }} run */
function drawing({ stages, adopted }) {
  // the only one of a model from elsewhere is called as the model is
  const only = stages.length === 1 && adopted?.kind;
  return h(
    "div",
    { class: "stages" },
    stages.flatMap((stage, at) => [at ? arrow(stage) : null, block(stage, only || stage.name)]),
  );
}

/** From one stage to the next, at the height of the part that reads the one before. @param {Stage} stage */
function arrow({ parts }) {
  const crossed = parts.findIndex(({ kind }) => kind === "cross");
  const line = () => h("i", { "aria-hidden": "true" });
  const words = crossed < 0 ? "" : h("span", {}, t("keys_values"));
  return h(
    "div",
    { class: crossed < 0 ? "flow" : "flow crosses" },
    h("p", { class: "side" }, "\u00a0"),
    h(
      "ul",
      {},
      crossed < 0 ? h("li", {}, line()) : parts.map((_, at) => h("li", {}, at === crossed ? [words, line()] : null)),
    ),
  );
}

/** @param {Stage} stage @param {string} name */
function block({ count, parts }, name) {
  const title = ["encoder", "decoder"].includes(name) ? t(name) : named("stage", name);
  return h(
    "div",
    { class: "stage" },
    h("p", { class: "side" }, count > 1 ? t("blocks_n", title, count) : title),
    h("ul", {}, parts.map(box)),
  );
}

/** @param {Part} part */
function box({ kind, causal, heads = 0, width, layers }) {
  const sizes = { feed_forward: [width], recurrent: [width], convolution: [layers, width] }[kind] || [];
  const name = t(causal ? "causal_self" : kind, ...sizes);
  return h(
    "li",
    { class: `part ${kind}` },
    name,
    heads
      ? h(
          "span",
          { class: "head-marks", title: t("heads_n", heads) },
          heads <= COLOURED
            ? Array.from({ length: heads }, (_, head) => h("i", { class: `of-head-${head}`, "aria-hidden": "true" }))
            : null,
          h("span", { class: heads <= COLOURED ? "unseen" : "" }, t("heads_n", heads)),
        )
      : null,
  );
}
