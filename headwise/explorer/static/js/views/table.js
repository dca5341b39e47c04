// @ts-check
/** Tables with a title above each column. */

import { h } from "../dom.js";

/** @param {string} tag @param {any} what a cell, or what becomes one @param {Record<string, string>} [props] */
const cell = (tag, what, props) => (what instanceof HTMLTableCellElement ? what : h(tag, props, what));

/** @param {Record<string, any>} props @param {any[]} titles of columns @param {any[]} rows lines, or cells of lines */
export const tableOf = (props, titles, rows) =>
  h(
    "table",
    props,
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        titles.map((one) => cell("th", one, { scope: "col" })),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map((row) =>
        row instanceof Node
          ? row
          : h(
              "tr",
              {},
              row.map((/** @type {any} */ one) => cell("td", one)),
            ),
      ),
    ),
  );
