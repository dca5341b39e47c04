// @ts-check
/** The chosen cell in a sentence, its row as bars, and what more is known of it. */

import { getNumbers, query } from "../api.js";
import { fill, h, strong } from "../dom.js";
import { inside } from "../inside.js";
import { closed, quoted } from "../core/phrases.js";
import { apart, cut, number, percent } from "../core/text.js";
import { effect } from "../store.js";
import * as state from "../state.js";
import { learn, phrase, sentences, t } from "../strings.js";
import { headName } from "../titles.js";
import { WORDS } from "../words/reading.js";
import { chosen, sentence } from "./heat.js";
import { marks } from "./marks.js";
import { spelled } from "./spelled.js";
import { rolled, silenced } from "./seen.js";
import { fact, measures, shares } from "./shares.js";
import { named } from "./steps.js";

learn(WORDS);

/** Letters of a token, and cells of a matrix that is asked for beside the weights, at most. */
const [LETTERS, CELLS] = [16, 128 * 128];
/** Keys beyond which they are not all in sight, so that a bar leads to its own. */
const MANY = 60;
/**
 * `row`: a row of weights, minus infinity where a pair is forbidden; null while it comes
 * @typedef {{ group: state.Group, marked?: Float32Array, row?: (q: number) => ArrayLike<number> | null, rows?:
 * number[][], columns?: number[][] }} Read
 */

/**
 * @param {HTMLElement} place @param {Read} head @param {state.Trace} trace
 * @param {state.Group} group whose layer is shown
 */
export function mount(place, head, trace, group) {
  const columns = head.group.keys.length;
  const kinds = Object.values(spelled(trace, group)).map(({ kind = "tokens" }) => kind);
  const tokens = kinds.every((kind) => kind === "tokens");
  const name = (/** @type {string} */ label) =>
    kinds.includes("steps") ? named(label) : tokens ? quoted(cut(label, LETTERS)) : cut(label, LETTERS);
  const { queries, keys } = head.group;
  const many = tokens && columns > MANY;
  const size = Math.max(group.queries.length, group.keys.length).toLocaleString("en");
  const [fromName, toName] = [queries, keys].map((labels) => {
    const short = apart(labels, name);
    return (/** @type {number} */ at, /** @type {boolean} */ numbered) =>
      numbered ? `${name(labels[at])} (${at + 1})` : short(at);
  });
  const same = (/** @type {number} */ q, /** @type {number} */ k) => state.oneSequence(head.group) && q === k;
  /** Positions stand where there are many tokens, or two of one name. */
  const pair = (/** @type {number} */ q, /** @type {number} */ k) => {
    const numbered = many || (tokens && queries[q] === keys[k] && !same(q, k));
    return [fromName(q, numbered), same(q, k) ? t("itself") : toName(k, numbered)];
  };
  const texts = [queries, keys].filter((_, side) => kinds[side] === "tokens");
  const explained = () => sentences(marks(...texts), state.reads() === "molecule" ? t("mark_atom") : "");
  const body = h("div");
  place.append(
    body,
    inside()
      ? ""
      : group.long
        ? h("p", { class: "note" }, () => t(kinds.includes("nodes") ? "too_long_made_nodes" : "too_long_made", size))
        : h(
            "p",
            {},
            h("a", { href: () => state.address("trace") }, () => t("see_made")),
          ),
    h("p", { class: "note" }, explained),
    h("p", { class: "note" }, () => t("note")),
  );
  const press = (/** @type {number} */ q, /** @type {number[]} */ row) => (/** @type {number} */ k) => {
    const bars = () => /** @type {HTMLElement[]} */ ([...body.querySelectorAll(".shares button")]);
    const at = bars().indexOf(/** @type {HTMLElement} */ (document.activeElement));
    state.lock({ q: head.rows ? head.rows[q][0] : q, k: head.columns ? head.columns[k][0] : k });
    state.status.value = sentence(q, k, row[k], head.group);
    // the bars are drawn anew
    bars()[at]?.focus({ preventScroll: true });
  };
  return effect(() => {
    const { q, k: locked } = chosen(head);
    if (q < 0) return fill(body);
    const weights = head.row ? head.row(q) : head.marked?.subarray(q * columns, (q + 1) * columns);
    if (!weights) return fill(body, h("p", { class: "waiting" }, t("loading")));
    const row = Array.from(weights);
    const order = row
      .map((_, k) => k)
      .filter((k) => row[k] > -Infinity)
      .sort((one, two) => row[two] - row[one]);
    const k = locked < 0 ? (order[0] ?? 0) : locked;
    const [from, to] = pair(q, k);
    const hidden = kinds.includes("nodes") ? "say_strangers" : "say_hidden";
    const template = row[k] === -Infinity ? hidden : rolled(group) ? "say_rollout" : `say_${group.kind}`;
    const ofHead = headName(state.place(group).head);
    const largest = order[0] !== k && row[k] < row[order[0]] ? order[0] : -1;
    const [facts, full] = [h("dl", { class: "facts" }, measures(row)), fullOf(row[order[0]])];
    const meant = h("p", { class: "note" }, facts.childNodes.length ? t("facts_note") : "");
    fill(
      body,
      h("p", { class: "say" }, closed(phrase(template, strong(from), strong(percent(row[k], 1)), strong(to), ofHead))),
      largest < 0 || row[k] === -Infinity
        ? null
        : h("p", {}, closed(phrase("say_most", percent(row[largest], 1), h("bdi", {}, pair(q, largest)[1])))),
      h("h2", {}, phrase(group.kind === "pooled" ? "row_answer" : "row_of", h("bdi", {}, from))),
      // few weights of many keys are compared with the largest of them
      shares(many ? (at) => toName(at, true) : apart(keys, (label) => cut(label, LETTERS)), row, order, k, {
        full,
        press: columns > MANY ? press(q, row) : undefined,
      }),
      full < 1 ? h("p", { class: "note" }, t("full_bar", percent(full, 1))) : null,
      facts,
      meant,
    );
    return scored(facts, meant, head, trace, group, q, k);
  });
}

/** A weight whose bar is full: 1, or the largest one where that would be short. @param {number} largest */
const fullOf = (largest) => (largest > 0 && largest < 0.5 ? largest : 1);

/** @param {number} value */
const significant = (value) => (value === -Infinity ? number(value) : value.toPrecision(4).replace("-", "−"));

/**
 * The score of a cell of two tokens, first of the facts, and what it is.
 * @param {HTMLElement} facts @param {HTMLElement} meant @param {Read} head @param {state.Trace} trace
 * @param {state.Group} group @param {number} q @param {number} k
 */
function scored(facts, meant, head, trace, group, q, k) {
  const whole = head.group.queries.length === group.queries.length && head.group.keys.length === group.keys.length;
  const { layer, head: at } = state.place(group);
  // the weights of a muted head are none of its scores
  if (inside() || rolled(group) || silenced(layer, at) || !whole || !head.marked || head.marked.length > CELLS)
    return undefined;
  let alive = true;
  getNumbers(`/api/v1/traces/${trace.trace_id}/matrix?${query({ layer, head: at, stage: "masked" })}`).then(
    (scores) => {
      if (!alive) return;
      facts.prepend(...fact("score", significant(scores.data[q * group.keys.length + k])));
      meant.prepend(t("score_note"), " ");
    },
    // a mechanism may have none
    () => {},
  );
  return () => {
    alive = false;
  };
}
