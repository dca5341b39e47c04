// @ts-check
/** A series as people read it: its steps in words, and its numbers as lines above a map whose keys are its steps. */

import { coloursOf, contextOf, sharp } from "../core/canvas.js";
import { significant } from "../core/digits.js";
import { percent } from "../core/text.js";
import { h } from "../dom.js";
import { learn, phrase, t } from "../strings.js";
import { headName } from "../titles.js";
import { WORDS } from "../words/sides.js";
import { followDark } from "./follow_dark.js";

learn(WORDS);

/** @typedef {{ name: string, past: number[], ahead: number[], truth: number[] | null }} Column */

/** Pixels of a strip, above its line and below it; letters of the name of a column, which stands above the line. */
const [DEEP, HEAD, EDGE, LETTERS] = [72, 20, 6, 24];
/** A series that is an example of a run: where its forecast begins. */
const AT = /^(?:the series|series '(?<name>.*)') at step (?<step>[\d,]+)$/;

const minus = (/** @type {string} */ label) => label.replace(/^-(?=\d)/, "−");

/**
 * What a trace of a series is called and answers, in the language of the page.
 * @param {import("../state.js").Trace} trace
 */
export function worded(trace) {
  const { name: called, columns } = trace.places;
  const groups = trace.groups.map((group) => {
    const of = (/** @type {"queries" | "keys"} */ side) =>
      trace.axes[group.name][side].kind === "steps" ? group[side].map(minus) : group[side];
    return { ...group, queries: of("queries"), keys: of("keys") };
  });
  return {
    ...trace,
    groups,
    get source() {
      return titled(called, columns[0].past.length);
    },
    label: truth(trace),
    get output() {
      return t(
        "series_next",
        next(columns, ({ ahead }) => ahead),
      );
    },
  };
}

/** What came at the first step of a forecast; empty where nobody knows. @param {import("../state.js").Trace} trace */
export const truth = ({ places: { columns } }) =>
  columns.every((/** @type {Column} */ column) => column.truth)
    ? next(columns, (/** @type {any} */ column) => column.truth)
    : "";

/** @param {Column[]} columns @param {(column: Column) => number[]} of what is read of each */
const next = (columns, of) => columns.map((column) => `${column.name} ${significant(of(column)[0], 3)}`).join(", ");

/**
 * A series by its name, or as an example of its run.
 * @param {string} called empty for one without a name @param {number} length steps that are read
 */
function titled(called, length) {
  const { name = "", step } = called.match(AT)?.groups || { name: called };
  const which = step ? t("series_input", length, step) : t("series_last", length);
  return name ? t("series_of", name, which) : which;
}

/** An example of a run in a list. @param {string} title */
export const listed = (title) => {
  const { name, step } = title.match(AT)?.groups || {};
  if (!step) return title;
  return name ? t("series_of", name, t("step_n", step)) : t("series_from", step);
};

/** The number of a step, counted from the last known one; NaN for what is no step. @param {string} label */
const numberOf = (label) => (/^[−+]?\d+$/.test(label) ? Number(label.replace("−", "-")) : NaN);

/** @param {string} label @param {"from" | "to"} side */
function told(label, side) {
  const step = numberOf(label);
  if (Number.isNaN(step)) return `“${label}”`;
  return step ? t(`step_${step < 0 ? "before" : "ahead"}_${side}`, Math.abs(step)) : t("step_known");
}

/**
 * The largest weight of a head on another step than its own, of the rows that forecast where there are any.
 * @param {import("../state.js").Group} group @param {ArrayLike<number>} weights a row for each query
 */
export function strongest({ queries, keys }, weights) {
  const ahead = queries.map((_, q) => q).filter((q) => numberOf(queries[q]) >= 0);
  let best = { query: 0, key: 0, weight: -1 };
  for (const query of ahead.length ? ahead : queries.keys())
    for (let key = 1; key < keys.length; key += 1) {
      const weight = weights[query * keys.length + key];
      if (keys[key] !== queries[query] && weight > best.weight) best = { query, key, weight };
    }
  const row = Array.from({ length: keys.length }, (_, key) => weights[best.query * keys.length + key]);
  return { ...best, row };
}

/**
 * Which step takes how much from which, and how far apart they are.
 * @param {import("../state.js").Group} group
 * @param {{ head: number, query: number, key: number, weight: number }} pair
 */
export function story({ queries, keys }, { head, query, key, weight }) {
  const [from, to] = [queries[query], keys[key]];
  const far = numberOf(from) - numberOf(to);
  const where = far > 0 ? t(far === 1 ? "story_one_back" : "story_back", far) : told(to, "to");
  const said = phrase("story_steps", told(from, "from"), percent(weight, 1), where).join("");
  return [`${headName(head)}${t("colon")}${said}`.replace(/(?<=\d) (?=[%步])|(?<=[第前后]) (?=\d)/g, "\u00a0")];
}

/**
 * The columns as lines, on a card, behind them the weights of a row.
 * @param {HTMLElement} place @param {import("../state.js").Trace} trace @param {import("../state.js").Group} group
 * @param {number[]} row @param {number} query whose row it is
 */
export function sketch(place, trace, group, row, query) {
  const draw = lines(trace, group)?.beside({ top: place, left: place });
  place.classList.add("lines-of-series");
  const width = place.clientWidth;
  const weights = Float32Array.from(row);
  // the last step of a forecast is no key
  const window = { x: 0, y: 0, side: width / (row.length + 1) };
  const looks = group.keys.indexOf(group.queries[query]);
  const bounds = { width, height: 0, rows: 1, columns: row.length, least: window.side, most: window.side };
  const all = () => {
    draw?.(window, bounds, weights);
    place.querySelectorAll("canvas").forEach((canvas) => looking(canvas, (looks + 0.5) * window.side));
  };
  followDark(all, place);
}

/** A line at the step that looks. @param {HTMLCanvasElement} canvas @param {number} x */
function looking(canvas, x) {
  const context = contextOf(canvas);
  context.fillStyle = coloursOf(canvas, "--mark")[0];
  context.fillRect(x - 1, 0, 2, DEEP);
}

/**
 * The numbers of a series above a map of a group whose keys are its steps; null where they are none.
 * @param {import("../state.js").Trace} trace @param {import("../state.js").Group} group
 * @returns {import("./sound.js").Beside | null}
 */
export function lines(trace, group) {
  const { queries, keys } = trace.axes[group.name];
  if (keys.kind !== "steps") return null;
  const columns = /** @type {Column[]} */ (trace.places.columns);
  const first = Number(group.keys[keys.before || 0].replace("−", "-")) + columns[0].past.length - 1;
  const beside = (/** @type {{ top: HTMLElement }} */ { top }) => {
    const strips = columns.map((column) => {
      const label = t("series_drawn", column.name);
      const canvas = h("canvas", { class: "strip-of-sound", role: "img", "aria-label": label, title: label });
      canvas.style.height = `${DEEP}px`;
      top.append(canvas);
      return { column, canvas };
    });
    /** @type {import("./sound.js").Draw} */
    const draw = ({ x, side }, { width }, row) => {
      for (const { column, canvas } of strips)
        drawn(canvas, column, { x, from: first - (keys.before || 0), side, width, row });
    };
    return draw;
  };
  return {
    beside,
    sides: { from: queries.kind === "steps" ? "from_step" : "attends_from", to: "to_step" },
    key: "series_key",
  };
}

/**
 * @param {HTMLCanvasElement} canvas @param {Column} column
 * @param {{ x: number, from: number, side: number, width: number, row: Float32Array | null }} seen `x`: the first key
 * that is seen, `from`: the step of the first of all; a key has `side` pixels
 */
function drawn(canvas, { name, past, ahead, truth }, { x, from: begins, side, width, row }) {
  canvas.style.width = `${width}px`;
  const context = sharp(canvas, width, DEEP);
  const css = getComputedStyle(canvas);
  const [ink, soft, link, mark] = coloursOf(canvas, "--ink", "--soft", "--link", "--mark");
  const all = [...past, ...ahead, ...(truth || [])];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const across = (/** @type {number} */ step) => (step - begins - x + 0.5) * side;
  const down = (/** @type {number} */ value) =>
    DEEP - EDGE - ((DEEP - HEAD - EDGE) * (value - low)) / (high - low || 1);
  if (row) weighted(context, row, mark, x, side);
  const line = (/** @type {number[]} */ values, /** @type {number} */ from, /** @type {string} */ colour) => {
    context.strokeStyle = colour;
    context.beginPath();
    values.forEach((value, at) => context.lineTo(across(from + at), down(value)));
    context.stroke();
  };
  context.lineWidth = 1.8;
  line(past, 0, ink);
  context.setLineDash([5, 4]);
  line([past[past.length - 1], ...ahead], past.length - 1, link);
  context.setLineDash([]);
  context.fillStyle = soft;
  (truth || []).forEach((value, at) => {
    context.beginPath();
    context.arc(across(past.length + at), down(value), 2.5, 0, 2 * Math.PI);
    context.fill();
  });
  context.font = `600 12px ${css.fontFamily}`;
  context.fillText(name.slice(0, LETTERS), 5, 13);
}

/**
 * A row of weights as filled steps, the largest as high as the strip.
 * @param {CanvasRenderingContext2D} context @param {Float32Array} row of what is seen and what is not
 * @param {string} colour @param {number} x the first key that is seen @param {number} side pixels of each
 */
function weighted(context, row, colour, x, side) {
  const top = Math.max(...row, 1e-12);
  context.fillStyle = colour;
  context.globalAlpha = 0.32;
  row.forEach((weight, at) => {
    const height = ((DEEP - HEAD) * Math.max(0, weight)) / top;
    context.fillRect((at - x) * side, DEEP - height, side - 1, height);
  });
  context.globalAlpha = 1;
}
