// @ts-check
/** What the views of a head show: the weights of a head, or rollout, by tokens or by words. */

import { getNumbers, query } from "../api.js";
import { inside } from "../inside.js";
import { read } from "../core/edits.js";
import { folded, splits } from "../core/folding.js";
import { after, weightsOf } from "./marked.js";
import { number } from "../core/text.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { groupTitle, headTitle } from "../titles.js";
import { classOf } from "./answer.js";
import { spelled } from "./spelled.js";

/**
 * `weights` has 0 where `marked` has minus infinity: pairs that the mask forbids. `rows` and `columns` are the tokens
 * of each.
 * @typedef {{ weights: Float32Array, marked: Float32Array, group: state.Group, title: string, path: string, note:
 * string, name: string,
 *   rows: number[][], columns: number[][], raw: Float32Array | null }} Seen `raw`: scores in place of weights, where
 * these are looked at
 */

/**
 * Whether a layer looks at what the one before it made, so that attention can be followed through them.
 * @param {state.Group} group
 */
export const rolls = (group) => state.oneSequence(group) && group.layers.length > 1 && !group.long;

/** Whether rollout is looked at in place of a head. @param {state.Group} group */
export const rolled = (group) => state.head.value < 0 && rolls(group);

/** Whether there are sub-words, and special tokens. @param {state.Trace} trace @param {state.Group} group */
export function foldable(trace, group) {
  // blocks are of tokens
  if (group.long) return { merged: false, special: false };
  const { queries, keys } = spelled(trace, group);
  const special = [queries, keys].some((one) => (one.special || []).length > 0);
  return { merged: splits(queries) || splits(keys), special };
}

/** What the options are for this group. @param {state.Trace} trace @param {state.Group} group */
export function options(trace, group) {
  const can = foldable(trace, group);
  return {
    merged: can.merged && state.merged.value !== "",
    special: can.special ? /** @type {"" | "hide" | "share"} */ (state.special.value) : "",
  };
}

/**
 * The same as a server is asked for it; nothing where all tokens are shown.
 * @param {state.Trace} trace @param {state.Group} group @returns {Record<string, string>}
 */
export function foldedBy(trace, group) {
  const { merged, special } = options(trace, group);
  return { ...(merged ? { merged: "true" } : {}), ...(special ? { special } : {}) };
}

/**
 * @param {state.Trace} trace @param {state.Group} group @param {number} [other] a head beside the chosen one
 * @returns {Promise<Seen>}
 */
export async function seen(trace, group, other) {
  const { at, layer, head: chosen } = state.place(group);
  const head = other ?? chosen;
  const rollout = other === undefined && rolled(group);
  const raw =
    rollout || inside() || state.view.value !== "heat" || !state.stage.value
      ? null
      : await scoresOf(trace, layer, head);
  // sums of scores mean nothing
  const how = raw ? { merged: false, special: /** @type {""} */ ("") } : options(trace, group);
  const { weights, marked } = rollout ? await rolledOut(trace, group) : await weightsOf(trace, group, layer, head);
  const { keys } = group;
  // the only row is the answer, of which the class alone is a label
  const queries = group.kind === "pooled" ? group.queries.map((label) => classOf(label)?.name ?? label) : group.queries;
  const found = folded({ weights: marked, queries, keys }, spelled(trace, group), how);
  const title = rollout ? t("layer_head", t("rollout"), groupTitle(group)) : headTitle(group, at, head);
  const silent = !rollout && silenced(layer, head);
  const note = [silent ? t("muted_head") : "", rollout ? t("rollout_note") : "", told(group, found, how)];
  const plain = found.weights === marked ? weights : found.weights.map((weight) => (weight === -Infinity ? 0 : weight));
  const name = rollout ? "rollout" : `${at}/${head}`;
  const path = rollout ? "" : layer;
  return {
    ...found,
    path,
    raw,
    weights: plain,
    marked: found.weights,
    group: { ...group, queries: found.queries, keys: found.keys },
    title,
    note: note.filter(Boolean).join(" "),
    name,
  };
}

/** @param {import("../core/edits.js").Edit} edit @param {string} layer @param {number} head */
export const mutes = (edit, layer, head) =>
  edit.kind === "mute" && edit.layer === layer && Boolean(edit.heads?.includes(head));

/** @param {string} layer @param {number} head */
export const silenced = (layer, head) => read(state.edits.value).some((edit) => mutes(edit, layer, head));

/**
 * The scores under the mask; null where a layer has none.
 * @param {state.Trace} trace @param {string} layer @param {number} head
 */
async function scoresOf(trace, layer, head) {
  try {
    const found = await getNumbers(
      `/api/v1/traces/${trace.trace_id}/matrix?${query({ layer, head, stage: "masked" })}`,
    );
    return Float32Array.from(found.data);
  } catch (error) {
    state.failed(/** @type {Error} */ (error));
    return null;
  }
}

/** @param {state.Trace} trace @param {state.Group} group */
async function rolledOut(trace, group) {
  const found = await getNumbers(`/api/v1/traces/${trace.trace_id}/rollout?${query({ group: group.name })}`);
  const weights = /** @type {Float32Array} */ (found.data);
  return { weights, marked: after(weights, group.queries.length, group.keys.length, group.causal) };
}

/** @param {{ queries: string[], keys: string[] }} map */
const sides = ({ queries, keys }) => `${queries.length} × ${keys.length}`;

/**
 * What is merged and hidden, in a sentence.
 * @param {state.Group} group @param {import("../core/folding.js").Folded} found
 * @param {import("../core/folding.js").Options} how
 */
function told(group, found, how) {
  const said = [];
  if (how.merged) said.push(`${t("merged_note")} (${sides(group)} → ${sides(found)})`);
  if (how.special === "hide") said.push(`${t("hidden_note")} ${number(found.left)}`);
  if (how.special === "share") said.push(t("shared_note"));
  return said.length ? `${said.join("; ")}.` : "";
}
