// @ts-check
/** A window on a matrix: the first column and row that are seen, and how many pixels a cell has. */

/** @typedef {{ x: number, y: number, side: number, tall?: number }} Window `tall`: pixels of a row, where not `side` */
/**
 * @typedef {{ rows: number, columns: number, width: number, height: number, least: number, most: number, tall?: number
 * }} Bounds in pixels; cells have from `least` to `most`, rows are `tall` at least
 */

/** All that can be seen at once. @param {Bounds} bounds @returns {Window} */
export const whole = (bounds) => ({ x: 0, y: 0, side: bounds.least, tall: tallOf(bounds.least, bounds) });

/** Pixels of a row whose cells are so wide. @param {number} side @param {Bounds} bounds */
const tallOf = (side, { tall = 0 }) => Math.max(side, tall);

/** The nearest window within the matrix. @param {Window} window @param {Bounds} bounds @returns {Window} */
export function within({ x, y, side }, bounds) {
  const size = limited(side, bounds.least, bounds.most);
  const tall = tallOf(size, bounds);
  return {
    x: limited(x, 0, Math.max(0, bounds.columns - bounds.width / size)),
    y: limited(y, 0, Math.max(0, bounds.rows - bounds.height / tall)),
    side: size,
    tall,
  };
}

/**
 * Cells become so many times as large; the point (in pixels of the window) stays where it is.
 * @param {Window} window @param {Bounds} bounds @param {number} factor
 * @param {{ x: number, y: number }} point
 */
export function zoomed(window, bounds, factor, point) {
  const side = limited(window.side * factor, bounds.least, bounds.most);
  const x = window.x + point.x / window.side - point.x / side;
  const y = window.y + point.y / (window.tall || window.side) - point.y / tallOf(side, bounds);
  return within({ x, y, side }, bounds);
}

/** @param {Window} window @param {Bounds} bounds @param {number} right @param {number} down */
export const moved = (window, bounds, right, down) =>
  within({ ...window, x: window.x + right / window.side, y: window.y + down / (window.tall || window.side) }, bounds);

/**
 * The window moves no farther than it must to show a cell; -1 leaves it.
 * @param {Window} window @param {Bounds} bounds
 * @param {{ q: number, k: number }} cell
 */
export function showing(window, bounds, { q, k }) {
  const x = k < 0 ? window.x : limited(window.x, k + 1 - bounds.width / window.side, k);
  const y = q < 0 ? window.y : limited(window.y, q + 1 - bounds.height / (window.tall || window.side), q);
  return within({ ...window, x, y }, bounds);
}

/**
 * The cell at a point of the window; null beside the matrix.
 * @param {Window} window @param {Bounds} bounds
 * @param {{ x: number, y: number }} point
 */
export function cellAt(window, bounds, point) {
  const k = Math.floor(window.x + point.x / window.side);
  const q = Math.floor(window.y + point.y / (window.tall || window.side));
  return point.x >= 0 && point.y >= 0 && k >= 0 && k < bounds.columns && q >= 0 && q < bounds.rows ? { q, k } : null;
}

/**
 * A matrix of at most so many rows and columns: each cell the largest of those that it stands for.
 * @param {Int16Array} entries @param {number} rows @param {number} columns @param {number} size
 */
export function pooled(entries, rows, columns, size) {
  const [down, across] = [Math.min(rows, size), Math.min(columns, size)];
  const found = new Int16Array(down * across).fill(-1);
  for (let at = 0; at < entries.length; at += 1) {
    const q = Math.floor((Math.floor(at / columns) * down) / rows);
    const place = q * across + Math.floor(((at % columns) * across) / columns);
    if (entries[at] > found[place]) found[place] = entries[at];
  }
  return { entries: found, rows: down, columns: across };
}

/**
 * Rows and columns that a dot of the screen stands for.
 * @param {Window} window @param {number} rows @param {number} columns
 */
export function blocksAt({ side, tall = side }, rows, columns) {
  const dots = (/** @type {number} */ length) => Math.floor(length * (globalThis.devicePixelRatio || 1) + 1e-6);
  return [Math.ceil(rows / Math.max(1, dots(rows * tall))), Math.ceil(columns / Math.max(1, dots(columns * side)))];
}

/** @param {number} value @param {number} low @param {number} high */
const limited = (value, low, high) => Math.min(Math.max(value, low), Math.max(low, high));
