// @ts-check
/** What was read and what was answered, above the views: a token chooses its row or its column of the map. */

import { fill, follow, h } from "../dom.js";
import { cut, legible, percent, shown } from "../core/text.js";
import { inside } from "../inside.js";
import { batch, signal } from "../store.js";
import * as state from "../state.js";
import { named, t } from "../strings.js";
import { seamOf } from "./spelled.js";
import { later } from "./later.js";
import { classed } from "./naming.js";

/** More tokens, on a wide and a narrow screen, are shown as their text; on request, up to ALL, each. */
const [MOST, FEW, NARROW, ALL] = [24, 12, 760, 512];
/** Letters of a text that may be cut. */
const CUT = 100;

/** An answer that is a number. */
const NUMBER = /^-?[\d.]+$/;

/** @param {state.Trace} trace @param {state.Group} group @returns {HTMLElement[]} */
export function answer(trace, group) {
  const cross = trace.groups.find(({ kind }) => kind === "cross");
  const first = cross || trace.groups[0];
  const all = tokens(trace, first, "keys");
  // of one sequence what was read comes first
  const count = all && !cross ? seamOf(first, trace.output) : 0;
  const read = (count && all?.slice(0, count)) || all;
  const end = (count && read?.join("").trim()) || "";
  const source = end && end !== trace.source.trim() && trace.source.endsWith(end) ? `… ${end}` : trace.source;
  const written = cross ? tokens(trace, cross, "queries") : (count && all?.slice(count)) || null;
  // of what writes, a row is of the token that it gives
  const writes =
    cross &&
    written &&
    group.queries.length === written.length &&
    (group === cross || group.name.startsWith("decoder"));
  const same = (/** @type {string[]} */ labels) => String(labels) === String(first.keys);
  const inRows = group.kind === "self" && !writes && same(group.queries);
  const inColumns = group.kind !== "self" && same(group.keys);
  return [
    unit("input", source, read, inRows ? "q" : "k", inRows ? choose : inColumns ? toColumn : null),
    warned(trace),
    unit(
      count ? "continuation" : NUMBER.test(trace.output) ? "predicted" : "answer",
      said(trace.output),
      written,
      "q",
      writes || (count && inRows) ? choose : null,
      count,
    ),
    writer(trace),
    verdict(trace),
    // what the number is, as the data calls it
    trace.places?.quantity
      ? h("div", {}, h("span", { class: "legend" }, named("quantity", trace.places.quantity)))
      : null,
    state.checkpoint.value < 0
      ? null
      : h(
          "button",
          { class: "asks", onclick: () => (state.checkpoint.value = -1) },
          `${t("at_step", state.checkpoint.value)} ✕`,
        ),
  ].filter((one) => one !== null);
}

/** Warnings about the input. @param {state.Trace} trace */
function warned({ warnings }) {
  if (!warnings?.length) return null;
  const line = h("div", { class: "flag" });
  import("../words/refusals.js").then(({ noted }) => fill(line, noted(warnings)));
  return line;
}

/** A class and its probability, of what a classifier answers; null for any other answer. @param {string} output */
export const classOf = (output) =>
  (["image", "sound", "node"].includes(state.reads()) &&
    output.match(/^(?<name>.+) \(?(?<more>>?)(?<share>0?\.\d+|1(?:\.0+)?)\)?$/)?.groups) ||
  null;

/** A class of nodes may have only a number. @param {string} name */
const ofClass = (name) => (state.reads() === "node" ? classed(name) : name);

/** The same in words. @param {string} output */
export function said(output) {
  const found = classOf(output);
  if (!found) return NUMBER.test(output) ? output.replace("-", "−") : output;
  return t("share_of", ofClass(found.name), found.more + percent(Number(found.share), 0).replace(" ", "\u00a0"));
}

/** What the data has: that it is the same, or what it is; null where nothing is known. @param {state.Trace} trace */
function verdict({ label, output }) {
  if (!label) return null;
  const found = classOf(output);
  if ((found ? found.name : output) === label) return h("div", { class: "label" }, `✓ ${t("as_in_data")}`);
  if (!found && (state.reads() === "series" || NUMBER.test(label)))
    return unit("value", label.replace("-", "−"), null, "q", null);
  // of a text there may be another that is as good
  if (!found && !["image", "sound"].includes(state.reads())) return unit("label", label, null, "q", null);
  const line = h("span", { class: "side" });
  later(() => import("./erring.js"), line, Boolean(found));
  return h(
    "div",
    { class: "label errs" },
    "✗ ",
    h("span", { class: "side" }, t("label")),
    h("bdi", {}, ofClass(label)),
    line,
  );
}

/** The way to the page that shows an output as it is written, where the model writes on. @param {state.Trace} trace */
function writer({ groups, output }) {
  // the bar of pages leads the keyboard there
  const way = (/** @type {string} */ page, /** @type {string} */ words) =>
    h("a", { class: "side", tabindex: -1, href: () => state.address(page) }, t(words));
  if (state.best() === "graph")
    return state.page.value === "attend" && !inside()
      ? way("graph", state.reads() === "node" ? "see_neighbours" : "see_drawn")
      : null;
  const writes = groups.some(({ name, causal }) => name.startsWith("decoder") || causal);
  return writes && output && state.reads() === "text" && !inside() ? way("translate", "watch_written") : null;
}

/**
 * The tokens of a side; null where it has none.
 * @param {state.Trace} trace @param {state.Group} group @param {"queries" | "keys"} side
 */
function tokens(trace, group, side) {
  const axis = trace.axes && trace.axes[group.name];
  return axis && axis[side].kind === "tokens" ? group[side] : null;
}

/** @param {number} q */
const choose = (q) => put(q, -1);

/** @param {number} k */
const toColumn = (k) => put(state.cell().q, k);

/** @param {number} q @param {number} k */
function put(q, k) {
  batch(() => {
    state.query.value = q;
    state.key.value = k;
  });
}

/**
 * @param {"input" | "answer" | "continuation" | "predicted" | "label" | "value"} name @param {string} text
 * @param {string[] | null} tokens @param {"q" | "k"} side @param {((at: number) => void) | null} pick
 * @param {number} [from] the place of the first token
 */
function unit(name, text, tokens, side, pick, from = 0) {
  if (!tokens && !text) return null;
  const plain = legible(text);
  const short = tokens && tokens.length <= (innerWidth > NARROW ? MOST : FEW);
  const open = signal(Boolean(short));
  const labels = () => (open.value && tokens && tokens.length <= ALL ? tokens : null);
  // the map does the same by keyboard
  const token = (/** @type {string} */ label, /** @type {number} */ at) =>
    h(
      "button",
      {
        tabindex: -1,
        disabled: !pick,
        title: label,
        "aria-pressed": () => String(Boolean(pick) && state.cell()[side] === from + at),
        onclick: () => pick && pick(from + at),
      },
      cut(label, 24),
    );
  const list = h("div", { class: "toks", hidden: () => !labels() });
  follow(list, () => fill(list, (labels() || []).map(token)));
  return h(
    "div",
    { class: /^(predicted|continuation)$/.test(name) ? "answer" : name },
    h(
      "span",
      { class: "side" },
      /^(answer|predicted|continuation)$/.test(name) ? "→ " : "",
      t(name === "value" ? "value_in_data" : name),
    ),
    h(
      "bdi",
      { title: text, hidden: () => Boolean(labels()), class: () => (open.value ? "whole" : "") },
      plain.trim() ? plain : shown(plain),
    ),
    list,
    short || (!tokens && text.length < CUT)
      ? null
      : h(
          "button",
          { class: "small", "aria-expanded": () => String(open.value), onclick: () => (open.value = !open.value) },
          () => t(open.value ? "less" : "all"),
        ),
  );
}
