// @ts-check
/** What every head does, in numbers; a click on a title sorts by it, on a row chooses its head. */

import { fill, h } from "../dom.js";
import { effect, signal } from "../store.js";
import { decimals } from "../core/text.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { groupTitle, layerNumber } from "../titles.js";
import { WORDS } from "../words/heads.js";

learn(WORDS);

const COLUMNS = ["entropy", "effective", "distance", "diagonal", "previous", "next", "first", "separator", "largest"];
/** Units of what is no share of a row. @type {Record<string, string>} */
const UNITS = { entropy: "nats", distance: "tokens" };
/** Decimals of every number, so that a column can be compared. */
export const PLACES = 3;

/**
 * What there is to show of these heads; of positions only where queries and keys are of one sequence.
 * @param {{ heads: Record<string, number>[][] }} summary
 */
export const columnsOf = ({ heads }) => COLUMNS.filter((name) => name in (heads[0][0] || {}));

/** The title of a column, with its unit. @param {string} name */
export const heading = (name) => (name in UNITS ? `${t(name)} (${t(UNITS[name])})` : t(name));

/**
 * @param {HTMLElement} place @param {state.Group} group @param {{ heads: Record<string, number>[][] }} summary
 * @returns {() => void}
 */
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
  place.append(
    h("h2", {}, t("heads_in_numbers", groupTitle(group))),
    h("p", { class: "note" }, t("heads_table_note")),
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
      order.map((row) => line(row, group, columns, tops)),
    );
  });
}

/**
 * @param {{ layer: number, head: number, found: Record<string, number> }} row
 * @param {state.Group} group
 * @param {string[]} columns
 * @param {number[]} tops the largest number of each column
 */
function line(row, group, columns, tops) {
  const choose = () => {
    state.layer.value = row.layer;
    state.head.value = row.head;
  };
  return h(
    "tr",
    { class: () => (state.place(group).at === row.layer && state.head.value === row.head ? "chosen" : "") },
    h("td", { title: group.layers[row.layer] }, layerNumber(group.layers[row.layer], row.layer)),
    h("td", {}, h("button", { onclick: choose }, row.head + 1)),
    columns.map((name, at) => measured(row.found[name], tops[at])),
  );
}

/** A number over a bar, as long as its share of the largest of its column. @param {number} value @param {number} top */
function measured(value, top) {
  const cell = h("td", { class: value === top ? "measured most" : "measured" }, decimals(value, PLACES));
  cell.style.setProperty("--part", `${top > 0 ? Math.max(0, (100 * value) / top) : 0}%`);
  return cell;
}
