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
 * A cell: its row is marked unless it is no `line`, itself where it is `on`, its column where it goes `down`.
 * @typedef {{ at: number[], on: boolean, down: boolean, line?: boolean }} Marks
 */
/**
 * `name`: for the focus; `kind`: a class; `kinds`: of the labels; `columns`: null for numbers; `others`: of other
 * heads; `marks` are followed; `share`: weights; `bare`: colours alone; `move`: by arrows, `pick`: by a click.
 * @typedef {{ name: string, symbol: string, kind?: string, text: string, values: number[][], rows: string[],
 *   columns: string[] | null, kinds: string[], others?: (row: number, column: number) => boolean, places: number,
 *   marks: () => Marks, share?: boolean, bare?: boolean, pick: (row: number, column: number) => void,
 *   move?: (row: number, column: number) => void }} Matrix
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

/** @param {Matrix} matrix @param {number[]} row @param {number} most */
function shades({ share }, row, most) {
  const dark = state.dark.peek() ? "dark" : "light";
  const name = share ? `ink ${dark}` : dark === "dark" ? "diverging dark" : "diverging";
  // NaN has the colour of 0
  const known = row.map((value) => value || 0);
  const shade = share ? entries(known, 1, "sqrt") : signed(known, most, "sqrt");
  return Array.from(shade, (entry) => (entry < 0 ? null : [colour(name, entry), letters(name, entry)]));
}

/** @param {Matrix} matrix */
function table(matrix) {
  const { values, rows, columns, bare } = matrix;
  const width = values.length ? values[0].length : 0;
  const most = top(values);
  const share = Boolean(matrix.share) && !values.some((row) => row.some((value) => value < 0 && value > -Infinity));
  const describe = (/** @type {number} */ row, /** @type {number} */ column) => {
    const value = values[row][column];
    const number =
      value === -Infinity ? `−∞, ${t(state.best() === "graph" ? "strangers" : "forbidden")}` : significant(value, 5);
    return `${matrix.symbol} ${rows[row]}, ${columns ? columns[column] : column + 1}: ${number}`;
  };
  const written = (/** @type {number} */ value) =>
    bare ? "" : value === -Infinity ? "−∞" : share ? weight(value) : fixed(value, matrix.places);
  const cell = (/** @type {(string[] | null)} */ shade, /** @type {number} */ row, /** @type {number} */ column) => {
    const node = document.createElement("td");
    node.className = !shade ? "hidden-pair" : matrix.others?.(row, column) ? "others" : "";
    node.tabIndex = -1;
    node.setAttribute("role", "gridcell");
    node.setAttribute("aria-label", describe(row, column));
    node.title = describe(row, column);
    node.dataset.at = `${matrix.name}.${row}.${column}`;
    if (shade) [node.style.background, node.style.color] = shade;
    node.textContent = written(values[row][column]);
    return node;
  };
  const heads = Array.from({ length: width }, (_, at) =>
    h(
      "th",
      { scope: "col", class: matrix.kinds[1] },
      columns ? h("bdi", {}, cut(columns[at], LETTERS)) : String(at + 1),
    ),
  );
  const names = rows.map((row) =>
    h("th", { scope: "row", class: matrix.kinds[0], title: visible(row) }, cut(row, LETTERS)),
  );
  const cells = values.map((row, at) => {
    const colours = shades({ ...matrix, share }, row, most);
    return row.map((_, column) => cell(colours[column], at, column));
  });
  const mark = marker(cells, names, heads);
  const box = h("div", { class: "scrolls", "data-of": matrix.name });
  const follow = () => {
    mark(matrix.marks());
    if (box.isConnected) reveal(box);
  };
  const grid = h(
    "table",
    {
      class: bare ? "cells-of bare" : "cells-of",
      role: "grid",
      "aria-label": `${matrix.symbol}, ${matrix.text}`,
      "data-marks": follow,
    },
    bare && !columns ? null : h("thead", {}, h("tr", { role: "row" }, h("td", { role: "presentation" }), heads)),
    h(
      "tbody",
      {},
      cells.map((row, at) => h("tr", { role: "row" }, names[at], row)),
    ),
  );
  grid.style.setProperty("--columns", String(width));
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
      cells[row][column].focus();
      (matrix.move || matrix.pick)(row, column);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  box.append(grid);
  return box;
}

/**
 * Puts marks on cells and labels, in place of those before.
 * @param {HTMLElement[][]} cells @param {HTMLElement[]} names @param {HTMLElement[]} heads
 */
function marker(cells, names, heads) {
  let now = /** @type {Marks | null} */ (null);
  const put = (/** @type {Marks} */ { at: [row, column], on, down, line = true }, /** @type {boolean} */ add) => {
    if (line) cells[row].forEach((cell) => cell.classList.toggle("line", add));
    if (line || on) names[row].classList.toggle("on", add);
    if (on || down) heads[column].classList.toggle("on", add);
    if (down) cells.forEach((cellsOfRow) => cellsOfRow[column].classList.toggle("down", add));
    const stop = cells[row][column];
    stop.tabIndex = add ? 0 : -1;
    if (!on) return;
    stop.classList.toggle("on", add);
    if (add) stop.setAttribute("aria-selected", "true");
    else stop.removeAttribute("aria-selected");
  };
  return (/** @type {Marks} */ next) => {
    if (now) put(now, false);
    put(next, true);
    now = next;
  };
}

/** Scrolls a matrix to what is marked in it. @param {HTMLElement} box */
export function reveal(box) {
  box.classList.toggle("beyond", box.scrollWidth > box.clientWidth);
  const cell = /** @type {HTMLElement | null} */ (box.querySelector("td.on, tr.on") || box.querySelector("td.line"));
  if (!cell) return;
  const [outer, inner] = [box.getBoundingClientRect(), cell.getBoundingClientRect()];
  const label = box.querySelector("tbody th")?.clientWidth || 0;
  if (inner.bottom > outer.bottom - 20 || inner.top < outer.top + 20)
    box.scrollTop += inner.top - outer.top - (outer.height - inner.height) / 2;
  if (cell.matches("td.on") && (inner.right > outer.right || inner.left < outer.left + label))
    box.scrollLeft += inner.left - outer.left - label - 40;
}

/** Many cells, as the maps of the other pages. @param {Matrix} matrix */
function picture({ values, rows, columns, symbol, text, share, marks, pick }) {
  const chosen = signal(/** @type {{ q: number, k: number } | null} */ (null));
  const place = h("div", {
    class: "scrolls",
    "data-marks": () => {
      const { at, on } = marks();
      chosen.value = on ? { q: at[0], k: at[1] } : null;
    },
  });
  const names = columns || values[0].map((_, at) => String(at + 1));
  const content = /**  @type {import("./map.js").Matrix} */ ({
    values: values.flat().map((value) => value || 0),
    rows,
    columns: names,
    top: share ? 1 : top(values),
    signed: !share,
    title: `${symbol}, ${text}`,
    width: 640,
    cell: chosen,
    told: (q, k) => `${visible(rows[q])}, ${visible(names[k])}: ${significant(values[q][k], 5)}`,
    pick,
  });
  import("./map.js").then((map) => map.mount(place, content));
  return place;
}
