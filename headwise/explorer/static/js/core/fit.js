// @ts-check
/** How large the cells of a map are and how the labels of its columns lie, so that as much as can be is seen. */

/** Pixels of a cell in which its number can be read. */
export const NUMERALS = 34;
/** Pixels of the largest cell. */
export const LARGEST = 68;
/** Pixels of the smallest cell above which labels are slanted. */
const SLANTED = 44;
/** How far a label of length 1 reaches when it is slanted. */
const SLANT = 0.72;

/**
 * @typedef {{ rows: number, columns: number, width: number, height: number, label: number, most: number }} Room pixels
 * for
 *   cells and the labels of columns, the longest of which has `label`; cells have `most`
 * @typedef {{ side: number, turn: "level" | "slanted" | "upright", band: number }} Fit `band`: pixels that the labels
 * take
 */

/**
 * The largest cells with which a map fits, in whole pixels where it has one for each.
 * @param {Room} room @returns {Fit}
 */
export function fit(room) {
  for (let side = room.most; side > 1; side -= 1) {
    const { turn, band } = labelled(side, room.label);
    const across = side * room.columns + (turn === "slanted" ? Math.max(0, room.label * SLANT - side / 2) : 0);
    if (across <= room.width && band + side * room.rows <= room.height) return { side, turn, band };
  }
  // less than two pixels a cell, so that all of it is seen
  const { turn, band } = labelled(1, room.label);
  const side = Math.min(room.width / room.columns, Math.max(1, room.height - band) / room.rows);
  return { side, turn, band };
}

/** @param {number} side @param {number} label @returns {{ turn: Fit["turn"], band: number }} */
function labelled(side, label) {
  if (label + 6 <= side) return { turn: "level", band: 22 };
  return side >= SLANTED
    ? { turn: "slanted", band: Math.ceil(label * SLANT) + 14 }
    : { turn: "upright", band: label + 10 };
}
