// @ts-check
/** Layers and heads as people name them, counted from 1; addresses, files and the API count from 0. */

import { t } from "./strings.js";

const PARTS = ["encoder", "decoder"];
/** Names of modules that say nothing of the part that they are. */
const NAMELESS = new Set(["transformer", "mixers", "model", "layers", "blocks"]);

/**
 * The numbers of a layer in its path, else its place among the layers of its group.
 * @param {string} path @param {number} at
 */
export const layerNumber = (path, at) =>
  (path.match(/(?<=\.)\d+(?=\.|$)/g) || [at]).map((number) => Number(number) + 1).join(".");

/** The first and the last number of layers. @param {string[]} layers */
const spanOf = (layers) => [...new Set([layers[0], layers[layers.length - 1]].map(layerNumber))].join("–");

/** @param {number} head */
export const headName = (head) => t("head_n", head + 1);

/**
 * A group of layers, such as "encoder self-attention"; of layers without a part of the model, their numbers.
 * @param {{ name: string, kind: string, layers?: string[] }} group
 * @param {{ name: string }[]} [all] the groups among which it stands: the first of several has its numbers too
 */
export function groupTitle({ name, kind, layers = [] }, all = []) {
  const [part, , number] = name.split(" ");
  const more = number || all.some((other) => other.name.startsWith(`${name} `));
  const whole = part === "pooling" || (part === "decoder" && kind === "cross");
  const ends = [layers[0], layers[layers.length - 1]].map((path) => path && /\.\d+(\.|$)/.test(path));
  const title =
    whole || NAMELESS.has(part)
      ? t(kind)
      : PARTS.includes(part)
        ? t("part_kind", t(part), t(kind))
        : t("other_kind", part, t(kind));
  if (more && !whole && ends[0] && ends[1])
    return t("kind_of_layers", PARTS.includes(part) ? title : t(kind), spanOf(layers));
  return number ? `${title} ${number}` : title;
}

/**
 * A layer, such as "Decoder layer 2, cross-attention".
 * @param {string} path of its module
 * @param {number} at its place in its group
 * @param {string} [kind]
 */
export function layerTitle(path, at, kind = kindOf(path)) {
  const part = path.split(".").find((name) => PARTS.includes(name));
  const title =
    part || /\.\d+(\.|$)/.test(path)
      ? t(part ? "part_layer" : "any_layer", layerNumber(path, at), t(kind), part ? t(part) : "")
      : t(kind);
  return title[0].toUpperCase() + title.slice(1);
}

/** @param {{ layers: string[], kind: string }} group @param {number} at @param {number} head */
export const headTitle = ({ layers, kind }, at, head) =>
  t("layer_head", layerTitle(layers[at], at, kind), headName(head));

/** @param {string} title where there is little room */
export const brief = (title) => title.replace("-attention", "");

/** What a layer is called by where nobody knows more. @param {string} path */
const kindOf = (path) => (/cross/.test(path) ? "cross" : /^pooling\b/.test(path) ? "pooled" : "self");

/** What the rows and columns of a map are, by the names of words. @param {{ kind: string, causal?: boolean }} group */
export const sidesOf = ({ kind, causal }) =>
  kind === "cross"
    ? { from: "from_written", to: "to_read" }
    : causal
      ? { from: "from_read", to: "to_before" }
      : { from: "attends_from", to: "attends_to" };
