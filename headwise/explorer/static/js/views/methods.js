// @ts-check
/** The methods of attribution: a list to choose from, and what each is and does not say. */

import { getJson, getNumbers, query } from "../api.js";
import { h } from "../dom.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { WORDS } from "../words/methods.js";

learn(WORDS);

/**
 * @typedef {{ name: string, kind: string, heads: number, queries: string[], keys: string[], causal: boolean, rows:
 * string, columns: string, quantity: string, signed: boolean }} Map
 */
/** @typedef {{ by: string, title: string, formula: string, source: string, limit: string, maps: Map[] }} Described */

/** Methods whose numbers are of inputs, and those whose are of heads and blocks, by `headwise.explain.methods`. */
export const OF_INPUTS = ["norms", "rollout", "alti", "flow", "gradient", "integrated", "occlusion"];
const OF_MODEL = ["ablation", "lens"];
export const METHODS = [...OF_INPUTS, ...OF_MODEL];

/** A list of methods, of which none may be chosen. @param {string[]} names @param {string} now */
export const choice = (names, now) =>
  h(
    "select",
    {
      class: "methods",
      "aria-label": t("by"),
      onchange: (/** @type {any} */ event) => state.ofMethod(event.target.value),
    },
    ["", ...names].map((name) => h("option", { value: name, selected: now === name }, t(name ? `by_${name}` : "by"))),
  );

/** Where the attribution of a trace is asked for. @param {state.Trace} trace */
const at = (trace) => `/api/v1/traces/${trace.trace_id}/attribution`;

/** @param {state.Trace} trace @param {string} by @param {AbortSignal} leaving @returns {Promise<Described>} */
export const described = (trace, by, leaving) => getJson(`${at(trace)}?${query({ by })}`, leaving);

/**
 * The numbers of a map, of one head or (-1) of all together.
 * @param {state.Trace} trace @param {string} by @param {Map} map @param {number} head
 */
export const numbersOf = (trace, by, map, head) =>
  getNumbers(`${at(trace)}/map?${query({ by, layer: map.name, ...(head < 0 ? {} : { head }) })}`);
