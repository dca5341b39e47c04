// @ts-check
/** Ready sentences in which "it" stands for one of two words, and how much of its attention goes to each of them. */

import { getNumbers, post, query } from "../api.js";
import { splits } from "../core/folding.js";
import { percent, together } from "../core/text.js";
import { h } from "../dom.js";
import { sentences, t } from "../strings.js";
import { headTitle } from "../titles.js";
import { address } from "./example_cards.js";
import { bar as barOf, evenness } from "./near_even.js";

/** A sentence, and the two words that "it" may stand for. @type {[string, string[]][]} */
const SENTENCES = [
  ["The animal didn't cross the street because it was too tired", ["animal", "street"]],
  ["The animal didn't cross the street because it was too wide", ["animal", "street"]],
  ["The cat drank the milk because it was hungry", ["cat", "milk"]],
];

/**
 * @param {HTMLElement} place @param {{ model: string, adopted?: any, stages: any[] }} run
 * @returns {() => void} ends what is still being traced
 */
export function mount(place, run) {
  const leaving = new AbortController();
  const rows = SENTENCES.map(([text, words]) => {
    const [link, shares] = [h("a", { href: address("attend", { m: run.model, x: text }) }, text), h("div")];
    return { text, words, link, shares, node: h("li", {}, link, shares) };
  });
  // a causal model has read neither word at "it"
  const both = run.stages.some(({ parts }) =>
    parts.some((/** @type {any} */ { kind, causal }) => kind === "self" && !causal),
  );
  const limit = h("p", { class: "note" }, sentences(t("it_limit"), both ? t("it_swap") : ""));
  place.append(
    h(
      "section",
      { class: "panel", "aria-label": t("where_it") },
      h("h2", {}, t("where_it")),
      h(
        "ul",
        { class: "pronouns" },
        rows.map(({ node }) => node),
      ),
      limit,
    ),
  );
  follow(rows, limit, run, leaving.signal);
  return () => leaving.abort();
}

/** @param {any[]} rows @param {HTMLElement} limit @param {any} run @param {AbortSignal} signal */
async function follow(rows, limit, run, signal) {
  /** Beginnings up to "it", of which a causal model knows nothing else. @type {Set<string>} */
  const seen = new Set();
  let least = 1;
  for (const row of rows) {
    row.shares.textContent = t("loading");
    try {
      const body = { model: run.model, text: row.text, options: { edits: [] } };
      const trace = await post("/api/v1/traces", body, signal);
      const [measured, spread] = await Promise.all([measure(trace, row.words), evenness(trace)]);
      if (signal.aborted) return;
      const [beginning] = row.text.split(" it ");
      row.node.hidden = Boolean(measured.group?.causal) && seen.has(beginning);
      seen.add(beginning);
      const even = !measured.reason && spread >= barOf(run);
      least = Math.min(least, even ? spread : 0);
      Object.assign(row, { reason: measured.reason, unknown: measured.unknown });
      if (measured.where) row.link.href = address("attend", { m: run.model, x: row.text, ...measured.where });
      row.shares.replaceChildren(...(even ? [] : shown(measured, row)));
    } catch (error) {
      if (signal.aborted) return;
      row.shares.textContent = /** @type {Error} */ (error).message;
    }
  }
  // nothing is measured where no sentence can be read
  limit.hidden = rows.every(({ shares }) => !shares.querySelector(".shares")) && !least;
  if (least > 0) limit.textContent = t("it_even", together(percent(least, 1)));
  const refused = rows.every(({ reason }) => reason);
  if (refused) limit.textContent = unread(rows.flatMap(({ unknown }) => unknown || [])) || rows[0].reason;
  // what holds of all is said once, without a list
  limit.hidden &&= !refused;
  rows[0].node.parentElement.hidden = refused || least > 0;
}

/**
 * The tokens of a word of one side of a group. @param {string[]} labels
 * @param {{ words?: number[] } | undefined} axis @param {string} word
 */
function tokensOf(labels, axis, word) {
  const words = axis?.words || labels.map((_, at) => at);
  const parts = new Map();
  words.forEach((number, at) => number >= 0 && parts.set(number, [...(parts.get(number) || []), at]));
  const spelled = (/** @type {number[]} */ tokens) =>
    tokens.map((at) => labels[at].replace(/^(##|\u2581|\u0120)/, "")).join("");
  return [...parts.values()].find((tokens) => spelled(tokens).trim().toLowerCase() === word) || [];
}

/** Which words a model does not know; empty where it knows all. @param {string[]} words */
const unread = (words) => words.length && t("it_unknown", [...new Set(words)].map((word) => `“${word}”`).join(", "));

/**
 * The weights of "it" on each word, of every head of the first self-attention that reads the sentence: exact.
 * @param {import("../state.js").Trace} trace @param {string[]} words
 */
async function measure(trace, words) {
  const group =
    trace.groups.find(({ kind, queries }) => kind === "self" && tokensOf(queries, undefined, "it").length) ||
    trace.groups.find(({ kind }) => kind === "self");
  if (!group) return { reason: t("it_no_self") };
  const axes = trace.axes[group.name];
  const [it] = tokensOf(group.queries, axes.queries, "it").slice(-1);
  const places = words.map((word) => tokensOf(group.keys, axes.keys, word));
  const unknown = ["it", ...words].filter((_, at) => (at ? !places[at - 1].length : it === undefined));
  if (unknown.length) return { reason: unread(unknown), unknown };
  const found = await getNumbers(`/api/v1/traces/${trace.trace_id}/row?${query({ group: group.name, q: it })}`);
  const [layers, heads, keys] = found.shape;
  const share = (/** @type {number} */ head, /** @type {number[]} */ tokens) =>
    tokens.reduce((sum, at) => sum + found.data[head * keys + at], 0);
  const every = Array.from({ length: layers * heads }, (_, head) => places.map((tokens) => share(head, tokens)));
  const [first, second] = [0, 1].map((word) => every.map((shares) => shares[word]));
  const best = every.reduce((most, _, at) => (first[at] - second[at] > first[most] - second[most] ? at : most), 0);
  const [layer, head] = [Math.floor(best / heads), best % heads];
  // where words have pieces, the page shows words
  const folded = splits(axes.keys) ? { w: "1" } : {};
  const where = { g: group.name, l: layer, h: head, q: it, k: places[0][0], ...folded };
  const even = places.map((tokens) => tokens.length / (group.causal ? it + 1 : keys));
  return { group, every, even, best, where };
}

/** @param {any} measured @param {any} row */
function shown({ reason, group, every, even, best, where }, row) {
  if (reason) return [h("p", { class: "note" }, reason)];
  const means = row.words.map(
    (/** @type {string} */ _, /** @type {number} */ at) =>
      every.reduce((/** @type {number} */ sum, /** @type {number[]} */ head) => sum + head[at], 0) / every.length,
  );
  const more = every.filter((/** @type {number[]} */ [first, second]) => first > second).length;
  const words = row.words.map((/** @type {string} */ word) => `“${word}”`);
  return [
    h(
      "div",
      { class: "shares" },
      row.words.map((/** @type {string} */ word, /** @type {number} */ at) => bar(word, means[at])),
    ),
    h(
      "p",
      { class: "note" },
      together(
        sentences(
          t("it_heads", more, every.length, ...words, ...even.map((/** @type {number} */ share) => percent(share, 1))),
          means.every((/** @type {number} */ mean, /** @type {number} */ at) => mean < even[at]) ? t("it_below") : "",
          t(
            "it_most",
            headTitle(group, where.l, where.h),
            percent(every[best][0], 1),
            words[0],
            percent(every[best][1], 1),
            words[1],
          ),
          group.causal ? t("it_causal") : "",
        ),
      ),
    ),
  ];
}

/** @param {string} word @param {number} share */
function bar(word, share) {
  const track = h("span", { class: "track" });
  track.style.width = `${Math.max(0.5, 100 * share)}%`;
  return h("div", {}, h("bdi", {}, word), h("span", {}, track), h("span", {}, percent(share, 1)));
}
