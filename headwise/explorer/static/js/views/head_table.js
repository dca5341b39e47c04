// @ts-check
/** What every head does, in numbers; a click on a title sorts by it, on a row chooses its head. */

import { fill, h, strong } from "../dom.js";
import { effect, signal } from "../store.js";
import { decimals } from "../core/text.js";
import * as state from "../state.js";
import { learn, phrase, sentences, t } from "../strings.js";
import { groupTitle, headName, layerNumber } from "../titles.js";
import { mutedHeads } from "./muted_heads.js";
import { silenced } from "./seen.js";
import { WORDS } from "../words/heads.js";

learn(WORDS);

const COLUMNS = ["entropy", "effective", "distance", "diagonal", "previous", "next", "first", "separator", "largest"];
/** Units of what is no share of a row. @type {Record<string, string>} */
const UNITS = { entropy: "nats", distance: "tokens" };
/** What is no share of a row, whose bars are as long as a share of the largest of its column. */
const COUNTS = new Set(["entropy", "effective", "distance"]);
/** Decimals of every number, so that a column can be compared. */
export const PLACES = 2;
const NARROW = 760;

/**
 * What there is to show of these heads; of positions only where queries and keys are of one sequence.
 * @param {{ heads: Record<string, number>[][] }} summary
 */
export const columnsOf = ({ heads }) => COLUMNS.filter((name) => name in (heads[0][0] || {}));

/** @param {string} name */
export const heading = (name) => (name in UNITS ? `${t(name)} (${t(UNITS[name])})` : t(name));

/** @param {HTMLElement} place @param {state.Group} group @param {{ heads: Record<string, number>[][] }} summary */
export function mount(place, group, summary) {
  const sorted = signal({ by: "", down: true });
  const rows = summary.heads.flatMap((heads, layer) => heads.map((found, head) => ({ layer, head, found })));
  const columns = columnsOf(summary);
  const titles = ["layer", "head", ...columns].map((name) =>
    h(
      "th",
      {
        scope: "col",
        "aria-sort": () => (sorted.value.by === name ? (sorted.value.down ? "descending" : "ascending") : "none"),
      },
      h(
        "button",
        {
          onclick: () => {
            const before = sorted.peek();
            sorted.value = { by: name, down: before.by === name ? !before.down : true };
          },
        },
        () => heading(name),
      ),
    ),
  );
  const body = h("tbody");
  const tops = columns.map((name) => Math.max(...rows.map(({ found }) => found[name])));
  const ends = columns.map((name, at) => (COUNTS.has(name) ? tops[at] : 1));
  const most = columns.map((name, at) => {
    const top = decimals(tops[at], PLACES);
    return rows.filter(({ found }) => decimals(found[name], PLACES) === top).length > 1 ? "" : top;
  });
  place.append(
    h("h2", {}, t("heads_in_numbers", groupTitle(group))),
    mutedHeads(group),
    spread(
      rows.filter(({ layer, head }) => !silenced(group.layers[layer], head)),
      group,
    ),
    h("p", { class: "note" }, t("heads_table_use")),
    // on a narrow screen the table comes first
    h(
      "details",
      { open: innerWidth > NARROW },
      h("summary", {}, t("heads_table_meant")),
      h("p", { class: "note" }, meanings(columns), " ", t("heads_table_note")),
    ),
    h(
      "div",
      { class: "scrolls", tabindex: 0 },
      h("table", { class: "heads" }, h("thead", {}, h("tr", {}, titles)), body),
    ),
  );
  return effect(() => {
    const { by, down } = sorted.value;
    const value = (/** @type {typeof rows[0]} */ row) => (by === "layer" || by === "head" ? row[by] : row.found[by]);
    const order = by ? [...rows].sort((one, two) => (down ? -1 : 1) * (value(one) - value(two))) : rows;
    fill(
      body,
      order.map((row) => line(row, group, columns, most, ends)),
    );
  });
}

/** What the numbers of these columns are, in sentences. @param {string[]} columns */
function meanings(columns) {
  const words = ["entropy", "effective", "distance", "first", "largest"].filter((name) => columns.includes(name));
  const shares = columns.some((name) => ["diagonal", "separator"].includes(name)) ? [t("meaning_shares")] : [];
  return sentences(...words.map((name) => t(`meaning_${name}`)), ...shares);
}

/**
 * Which head looks at most keys and which at fewest, in a sentence.
 * @param {{ layer: number, head: number, found: Record<string, number> }[]} rows @param {state.Group} group
 */
function spread(rows, group) {
  if (rows.length < 2) return null;
  const by = [...rows].sort((one, two) => two.found.effective - one.found.effective);
  const words = [by[0], by[by.length - 1]].flatMap(({ layer, head, found }) => [
    t("layer_head", t("layer_n", layerNumber(group.layers[layer], layer)), headName(head)),
    found.effective.toFixed(1),
  ]);
  return h("p", { class: "say" }, phrase("say_apart", ...words.map(strong)));
}

/**
 * @param {{ layer: number, head: number, found: Record<string, number> }} row
 * @param {state.Group} group @param {string[]} columns
 * @param {string[]} most the largest number of each column as it reads, "" where several read so
 * @param {number[]} ends the number of which a bar is a share
 */
function line(row, group, columns, most, ends) {
  const choose = () => {
    state.layer.value = row.layer;
    state.head.value = row.head;
  };
  return h(
    "tr",
    { class: () => (state.place(group).at === row.layer && state.place(group).head === row.head ? "chosen" : "") },
    h("td", { title: group.layers[row.layer] }, layerNumber(group.layers[row.layer], row.layer)),
    h("td", {}, h("button", { onclick: choose }, row.head + 1)),
    silenced(group.layers[row.layer], row.head)
      ? h("td", { class: "note", colspan: columns.length }, t("is_muted"))
      : columns.map((name, at) => measured(row.found[name], most[at], ends[at])),
  );
}

/**
 * A number with a bar, as long as its share of the end; bold where it reads as `most`.
 * @param {number} value @param {string} most @param {number} end
 */
function measured(value, most, end) {
  const text = decimals(value, PLACES);
  const bar = h("i");
  bar.style.width = `${end > 0 ? Math.min(100, Math.max(0, (100 * value) / end)) : 0}%`;
  const track = h("span", { class: "whole-bar", "aria-hidden": "true" }, bar);
  return h("td", { class: text === most ? "measured most" : "measured" }, text, track);
}
