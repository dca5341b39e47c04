// @ts-check
/** Reports of comparisons and of costs: table, figures, and what each side attends to on one same input. */

import { getJson, post } from "../api.js";
import { fill, h } from "../dom.js";
import { effect, signal } from "../store.js";
import { number, shown } from "../core/text.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { groupTitle, headTitle } from "../titles.js";
import * as map from "./map.js";
import { weightsOf } from "./marked.js";
import { tableOf } from "./table.js";

/**
 * @typedef {{ name: string, kind: string, metric: string | null, command: string, rows: Record<string, any>[],
 *   paths: Record<string, any>[], notes: string[], conditions: string[], sides: { name: string, model: string }[],
 *   figures: { caption: string, image: string }[] }} Report
 */

/** What stands in the table of a comparison, besides the score. */
const COLUMNS = ["side", "behind", "p", "seeds", "parameters", "step_cpu_ms", "peak_mib", "state_bytes", "cpu_s"];

/** @param {HTMLElement} place */
export function mount(place) {
  let alive = true;
  /** @type {(() => void)[]} */
  const ends = [];
  getJson("/api/v1/reports").then((/** @type {{ reports: Report[] }} */ { reports }) => {
    if (!alive) return;
    fill(place);
    for (const report of reports) {
      const section = h("section", { class: "panel report" });
      place.append(section);
      ends.push(drawn(section, report));
    }
    document.documentElement.dataset.reports = String(reports.length);
  }, state.failed);
  return () => {
    alive = false;
    ends.forEach((end) => end());
  };
}

/** @param {HTMLElement} section @param {Report} report */
function drawn(section, report) {
  const lines = (/** @type {string[]} */ texts) => texts.map((text) => h("li", {}, text));
  const sides = h("div");
  fill(
    section,
    h("h2", {}, t(`report_${report.kind}`), " ", h("bdi", {}, report.name)),
    report.conditions.length ? h("ul", { class: "lines" }, lines(report.conditions)) : null,
    table(report.rows, report.kind === "comparison" ? columns(report) : Object.keys(report.rows[0] || {})),
    report.paths.length ? table(report.paths, Object.keys(report.paths[0])) : null,
    report.notes.length ? h("ul", { class: "lines" }, lines(report.notes)) : null,
    h(
      "div",
      { class: "figures" },
      report.figures.map(({ caption, image }) =>
        h("figure", {}, h("img", { src: image, alt: caption }), h("figcaption", {}, caption)),
      ),
    ),
    sides,
    h("p", { class: "side" }, `${t("report_made")} `, h("code", {}, report.command)),
  );
  if (report.kind !== "comparison") return () => {};
  if (report.sides.length) return attention(sides, report);
  fill(sides, h("p", {}, t("report_runs"), " ", h("code", {}, `headwise explore --report ${report.name}`)));
  return () => {};
}

/** @param {Report} report */
const columns = (report) => ["side", String(report.metric), ...COLUMNS.slice(1)];

/** @param {Record<string, any>[]} rows @param {string[]} names */
function table(rows, names) {
  const kept = names.filter((name) => rows.some((row) => row[name] !== null && row[name] !== undefined));
  const label = (/** @type {string} */ name) => (COLUMNS.includes(name) ? t(`col_${name}`) : name);
  const lines = rows.map((row) => kept.map((name) => cell(row, name)));
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": t("report_table") },
    tableOf({ class: "told" }, kept.map(label), lines),
  );
}

/** @param {Record<string, any>} row @param {string} name */
function cell(row, name) {
  const value = row[name];
  if (value === null || value === undefined) return row.failed ? t("report_failed", row.failed, row.seeds) : "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return typeof value === "number" ? number(value) : String(value);
}

/** The same head of the run of each side, on one input. @param {HTMLElement} place @param {Report} report */
function attention(place, report) {
  const [text, layer, head] = [signal(""), signal(0), signal(0)];
  const input = h("input", { type: "text", "aria-label": t("input"), placeholder: t("type_text") });
  input.addEventListener("change", () => (text.value = input.value));
  const counter = (/** @type {string} */ name, /** @type {any} */ of) => {
    const field = h("input", { type: "number", min: 1, value: 1, size: 3 });
    field.addEventListener("change", () => (of.value = Math.max(0, Number(field.value) - 1)));
    return h("label", {}, `${t(name)} `, field);
  };
  const maps = h("div", { class: "panels three" });
  fill(
    place,
    h("h3", {}, t("report_attention")),
    h(
      "div",
      { class: "side-of" },
      h("label", { class: "grows" }, `${t("input")} `, input),
      counter("layer", layer),
      counter("head", head),
    ),
    maps,
  );
  return effect(() => {
    const given = text.value ? { text: text.value } : { example: 0 };
    const [at, which] = [layer.value, head.value];
    let alive = true;
    /** @type {(() => void)[]} */
    const ends = [];
    fill(maps);
    for (const side of report.sides) {
      const panel = h("section", { class: "panel" }, h("h4", {}, side.name));
      maps.append(panel);
      one(panel, side, given, at, which).then(
        (end) => (alive ? ends.push(end) : end()),
        (error) => alive && panel.append(h("p", { class: "failed" }, error.message)),
      );
    }
    return () => {
      alive = false;
      ends.forEach((end) => end());
    };
  });
}

/**
 * @param {HTMLElement} panel
 * @param {{ name: string, model: string }} side
 * @param {Record<string, any>} given @param {number} at @param {number} which
 */
async function one(panel, side, given, at, which) {
  const trace = await post("/api/v1/traces", { model: side.model, ...given });
  // that of the last group: a decoder's look at its source, where there is one
  const group = trace.groups[trace.groups.length - 1];
  const layer = state.layerWithin(group, at);
  const head = Math.min(which, group.heads - 1);
  const { weights, marked } = await weightsOf(trace, group, group.layers[layer], head);
  const top = weights.reduce((most, value) => Math.max(most, value), 0);
  const told = (/** @type {number} */ q, /** @type {number} */ k) =>
    `${shown(group.queries[q])} → ${shown(group.keys[k])} ${number(weights[q * group.keys.length + k])}`;
  panel.append(h("p", { class: "side" }, `${groupTitle(group)}, ${headTitle(group, layer, head)}`));
  const title = `${side.name}: ${headTitle(group, layer, head)}`;
  const end = map.mount(panel, {
    values: marked,
    rows: group.queries,
    columns: group.keys,
    top,
    title,
    width: 240,
    cell: state.hovered,
    told,
  });
  panel.append(h("p", { class: "legend" }, `0 … ${number(top)}`));
  document.documentElement.dataset.sides = `${Number(document.documentElement.dataset.sides || 0) + 1}`;
  return end;
}
