// @ts-check
/** A map of more columns than it has dots of the screen: cells that stand for several weights each. */

import { painted } from "../core/heatmap.js";
import { learn, t } from "../strings.js";
import { WORDS } from "../words/blocks.js";

learn(WORDS);

/** @typedef {{ canvas: HTMLCanvasElement, entries: Int16Array, columns: number }} Blocks */

/**
 * Cells of so many rows and columns each: of their entries that farthest from `middle`; forbidden where all are.
 * @param {Int16Array} entries @param {number} rows @param {number} columns @param {number} down @param {number} across
 * @param {number} [middle] the entry of zero
 */
function inBlocks(entries, rows, columns, down, across, middle = 0) {
  const [height, width] = [Math.ceil(rows / down), Math.ceil(columns / across)];
  const far = (/** @type {number} */ entry) => (entry < 0 ? -1 : Math.abs(entry - middle));
  const blocks = new Int16Array(height * width).fill(-1);
  for (let at = 0; at < entries.length; at += 1) {
    const place = Math.floor(at / columns / down) * width + Math.floor((at % columns) / across);
    if (far(entries[at]) > far(blocks[place])) blocks[place] = entries[at];
  }
  return { entries: blocks, rows: height, columns: width };
}

/**
 * A map painted, a pixel for each cell, which stands for so many rows and columns.
 * @param {import("./legend.js").Shading} how @param {number} rows @param {number} columns @param {number[]} blocks
 * @param {boolean} scores whether zero is in the middle @returns {Blocks}
 */
export function inCells(how, rows, columns, [down, across], scores) {
  const cells = inBlocks(how.cells, rows, columns, down, across, scores ? 127.5 : 0);
  const canvas = painted(cells.entries, cells.rows, cells.columns, how.name);
  return { canvas, entries: cells.entries, columns: cells.columns };
}

/**
 * What a cell of a map stands for, and which columns are seen.
 * @param {HTMLElement} note @param {number[]} blocks @param {import("../core/zoom.js").Window} window
 * @param {import("../core/zoom.js").Bounds} bounds
 */
export function said(note, [down, across], { x, side }, { rows, columns, width }) {
  const [of, last] = [`${rows} × ${columns}`, Math.min(columns, Math.ceil(x + width / side))];
  note.textContent = t(
    down * across > 1 ? "map_blocks" : "map_exact",
    down,
    across,
    of,
    last - x < columns - 0.5 ? t("map_columns", Math.floor(x) + 1, last) : "",
  );
}
