// @ts-check
/** A matrix as coloured cells, with their numbers or without: one stop of the tabulator, arrows move inside. */

import { colour, entries, letters, signed } from "../core/color.js";
import { fixed, significant, weight } from "../core/digits.js";
import { cut, shown as visible } from "../core/text.js";
import { h } from "../dom.js";
import { signal } from "../store.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/** More cells than this are drawn as one picture. */
const MOST = 4000;
const LETTERS = 12;
/** @type {Record<string, [number, number]>} */
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/**
 * `name` names it for the focus; `kind` is a class; `rows` and `columns` are labels, columns null for numbers from 1;
 * `line` is a row that is marked, `on` a cell; `share`: weights, which are not below zero; `bare`: colours alone;
 * `move` is done by an arrow, `pick` by a click and Enter.
 * @typedef {{ name: string, symbol: string, kind?: string, text: string, values: number[][], rows: string[],
 *   columns: string[] | null, places: number, line?: number, down?: number, on?: number[] | null, share?: boolean,
 *   bare?: boolean, pick: (row: number, column: number) => void, move?: (row: number, column: number) => void }} Matrix
 */

/** @param {Matrix} matrix @returns {HTMLElement} */
export function matrix(matrix) {
  const { values, symbol, text, kind } = matrix;
  const width = values.length ? values[0].length : 0;
  const caption = h(
    "div",
    { class: "caption" },
    h("b", {}, symbol),
    h("span", {}, text),
    h("span", { class: "side", title: t("shape") }, `${values.length} × ${width}`),
  );
  const large = values.length * width > MOST;
  return h("div", { class: `matrix ${kind || ""}` }, caption, large ? picture(matrix) : table(matrix));
}

/** The largest number of a matrix, to which its colours go. @param {number[][]} values */
function top(values) {
  let most = 0;
  for (const row of values) for (const value of row) if (value > -Infinity) most = Math.max(most, Math.abs(value));
  return most || 1;
}

/** The colours of a row. @param {Matrix} matrix @param {number[]} row @param {number} most */
function shades({ share }, row, most) {
  const dark = state.dark.peek() ? "dark" : "light";
  const name = share ? `ink ${dark}` : dark === "dark" ? "diverging dark" : "diverging";
  const found = share ? entries(row, 1, "sqrt") : signed(row, most, "sqrt");
  return Array.from(found, (entry) => (entry < 0 ? null : [colour(name, entry), letters(name, entry)]));
}

/** @param {Matrix} matrix */
function table(matrix) {
  const { values, rows, columns, line, on, bare } = matrix;
  const width = values.length ? values[0].length : 0;
  const most = top(values);
  const share = Boolean(matrix.share) && !values.some((row) => row.some((value) => value < 0 && value > -Infinity));
  const stop = on || [line === undefined ? 0 : line, 0];
  const told = (/** @type {number} */ row, /** @type {number} */ column) => {
    const value = values[row][column];
    const number = value === -Infinity ? `−∞, ${t("forbidden")}` : significant(value, 5);
    return `${matrix.symbol} ${rows[row]}, ${columns ? columns[column] : column + 1}: ${number}`;
  };
  const written = (/** @type {number} */ value) =>
    bare ? "" : value === -Infinity ? "−∞" : share ? weight(value) : fixed(value, matrix.places);
  const cell = (/** @type {(string[] | null)} */ shade, /** @type {number} */ row, /** @type {number} */ column) => {
    const chosen = on && on[0] === row && on[1] === column;
    const marks = [chosen ? "on" : "", row === line ? "line" : "", column === matrix.down ? "down" : ""];
    const node = document.createElement("td");
    node.className = [...marks, shade ? "" : "hidden-pair"].filter(Boolean).join(" ");
    node.tabIndex = row === stop[0] && column === stop[1] ? 0 : -1;
    node.setAttribute("role", "gridcell");
    if (chosen) node.setAttribute("aria-selected", "true");
    node.setAttribute("aria-label", told(row, column));
    node.title = told(row, column);
    node.dataset.at = `${matrix.name}.${row}.${column}`;
    if (shade) [node.style.background, node.style.color] = shade;
    node.textContent = written(values[row][column]);
    return node;
  };
  const head = h(
    "tr",
    { role: "row" },
    h("td", { role: "presentation" }),
    Array.from({ length: width }, (_, at) =>
      h(
        "th",
        { scope: "col", class: (on && on[1] === at) || at === matrix.down ? "on" : null },
        columns ? h("bdi", {}, cut(columns[at], LETTERS)) : String(at + 1),
      ),
    ),
  );
  const body = values.map((row, at) => {
    const colours = shades({ ...matrix, share }, row, most);
    return h(
      "tr",
      { role: "row" },
      h("th", { scope: "row", class: at === line ? "on" : null, title: visible(rows[at]) }, cut(rows[at], LETTERS)),
      row.map((_, column) => cell(colours[column], at, column)),
    );
  });
  const grid = h(
    "table",
    { class: bare ? "cells-of bare" : "cells-of", role: "grid", "aria-label": `${matrix.symbol}, ${matrix.text}` },
    bare && !columns ? null : h("thead", {}, head),
    h("tbody", {}, body),
  );
  const at = (/** @type {Event} */ event) => {
    const target = /** @type {HTMLElement} */ (event.target).closest("td[data-at]");
    return target ? /** @type {HTMLElement} */ (target).dataset.at?.split(".").slice(-2).map(Number) : undefined;
  };
  grid.addEventListener("click", (/** @type {Event} */ event) => {
    const place = at(event);
    if (place) matrix.pick(place[0], place[1]);
  });
  grid.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const place = at(event);
    if (!place) return;
    if (event.key === "Enter" || event.key === " ") matrix.pick(place[0], place[1]);
    else if (MOVES[event.key]) {
      const [row, column] = MOVES[event.key].map((by, axis) =>
        Math.max(0, Math.min((axis ? width : values.length) - 1, place[axis] + by)),
      );
      focused(grid, `${matrix.name}.${row}.${column}`);
      (matrix.move || matrix.pick)(row, column);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return h("div", { class: "scrolls", "data-of": matrix.name }, grid);
}

/** The focus goes to a cell; a redraw finds it there. @param {HTMLElement} grid @param {string} at */
function focused(grid, at) {
  grid.querySelectorAll("td[data-at]").forEach((node) => {
    const cell = /** @type {HTMLElement} */ (node);
    cell.tabIndex = cell.dataset.at === at ? 0 : -1;
    if (cell.dataset.at === at) cell.focus();
  });
}

/** Many cells, as the maps of the other pages. @param {Matrix} matrix */
function picture({ values, rows, columns, symbol, text, share, on, pick }) {
  const place = h("div", { class: "scrolls" });
  const names = columns || values[0].map((_, at) => String(at + 1));
  const shown = /** @type {import("./map.js").Matrix} */ ({
    values: values.flat(),
    rows,
    columns: names,
    top: share ? 1 : top(values),
    signed: !share,
    title: `${symbol}, ${text}`,
    width: 640,
    cell: signal(on ? { q: on[0], k: on[1] } : null),
    told: (q, k) => `${visible(rows[q])}, ${visible(names[k])}: ${significant(values[q][k], 5)}`,
    pick,
  });
  import("./map.js").then((map) => map.mount(place, shown));
  return place;
}
