// @ts-check
/** Whether a model spreads its attention almost evenly in every head, as one does that is not trained. */

import { getJson, query } from "../api.js";
import { meta } from "../state.js";
import { learn, sentences, t } from "../strings.js";
import { WORDS } from "../words/near_even.js";

learn(WORDS);

/**
 * Shares of the entropy of equal weights from which on a head is as good as even: of a model that was trained here,
 * which may answer well all the same, as one that counts words does, and of one without a record of its training. The
 * sharpest heads of our trained runs keep .03 to .80, those of random parameters .90 to .98.
 */
const [TRAINED, UNKNOWN] = [0.95, 0.87];

/** From where on a run is near even. @param {{ adopted?: any }} run */
export const bar = ({ adopted }) => (adopted ? UNKNOWN : TRAINED);

/**
 * The share of the entropy of equal weights that the sharpest head keeps, as a mean over its rows.
 * @param {Record<string, number>[][]} heads of each layer @param {number} queries @param {number} keys
 * @param {boolean} causal
 */
function leastShare(heads, queries, keys, causal) {
  const even = causal
    ? Array.from({ length: queries }, (_, q) => Math.log(q + 1)).reduce((sum, one) => sum + one, 0) / queries
    : Math.log(keys);
  return Math.min(1, ...heads.flat().map(({ entropy }) => entropy / even));
}

/**
 * The same over all groups of a trace that choose between keys; 0 where none does.
 * @param {import("../state.js").Trace} trace
 */
export async function evenness({ trace_id, groups }) {
  const choosing = groups.filter(({ queries, keys, causal }) => (causal ? queries : keys).length > 1);
  const shares = choosing.map(async ({ name, queries, keys, causal, whole }) => {
    // too many weights to be read at once are those of a model that reads much: nothing is said of it
    if (!whole) return 0;
    const { heads } = await getJson(`/api/v1/traces/${trace_id}/summary?${query({ group: name })}`);
    return leastShare(heads, queries.length, keys.length, causal);
  });
  return Math.min(shares.length, ...(await Promise.all(shares)));
}

/** Doubts about a model that may not be trained, else "". @param {import("../state.js").Trace} trace */
export async function doubt(trace) {
  const run = meta.value?.models.find((/** @type {any} */ one) => one.name === trace.model);
  // a trace that is gone is none to doubt
  if (run?.trained !== false || (await evenness(trace).catch(() => 0)) < UNKNOWN) return "";
  return sentences(t("hardly_learned"), trace.output ? t("means_little") : "");
}
