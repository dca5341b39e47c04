// @ts-check
/** Measured time and memory over the length, both axes logarithmic, with the hardware that they were measured on. */

import { segment, sharp } from "../core/canvas.js";
import { getJson } from "../api.js";
import { fill, h } from "../dom.js";
import { effect } from "../store.js";
import { lineColour } from "../core/color.js";
import { number } from "../core/text.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { tableOf } from "./table.js";

const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
const LEAST = 1e-3;
const EDGE = { left: 58, right: 12, top: 12, bottom: 34 };

/**
 * @typedef {{ mechanism: string, n: number, fwd_ms: { p50: number, p90: number }, mem_mib: number, hardware: string,
 * device: string, dtype: string, heads: number, d: number }} Measured
 */

/** @param {HTMLElement} place */
export function mount(place) {
  let alive = true;
  let end = () => {};
  getJson("/api/v1/bench").then((found) => {
    if (alive) end = effect(() => drawn(place, found));
  }, state.failed);
  return () => {
    alive = false;
    end();
  };
}

/** @param {HTMLElement} place @param {{ records: Measured[], made_by: string, shown_by: string }} found */
function drawn(place, found) {
  const title = h("summary", {}, h("h2", {}, t("curves")));
  /** @type {HTMLDetailsElement} */ (place).open ||= found.records.length > 0;
  if (!found.records.length) {
    fill(
      place,
      title,
      h("p", {}, t("norecords")),
      h("p", {}, h("code", {}, found.made_by)),
      h("p", {}, h("code", {}, found.shown_by)),
    );
    document.documentElement.dataset.curves = "none";
    return undefined;
  }
  const one = found.records[0];
  const machines = [...new Set(found.records.map((each) => `${each.hardware}; ${each.device}; ${each.dtype}`))];
  const names = [...new Set(found.records.map((each) => each.mechanism))];
  const time = graph(found.records, names, (each) => each.fwd_ms.p50, t("milliseconds"));
  const memory = graph(found.records, names, (each) => each.mem_mib, t("mebibytes"));
  fill(
    place,
    title,
    h("p", { class: "side" }, `${machines.join(" | ")} · ${one.heads} ${t("heads")}, d = ${one.d} · ${t("stored")}`),
    h(
      "ul",
      { class: "key" },
      names.map((name, at) => h("li", {}, sample(at), ` ${name} ${bend(found.records, name)}`)),
    ),
    h("p", { class: "side" }, t("bend")),
    h("div", { class: "panels" }, time, memory),
    h("details", {}, h("summary", {}, t("table")), table(found.records)),
    h("p", {}, h("a", { href: "/api/v1/bench?format=csv", download: "headwise-bench.csv" }, "CSV")),
  );
  // the colour of axes is that of the page
  void state.dark.value;
  const draw = () => {
    paint(time.firstChild, found.records, names, (each) => each.fwd_ms.p50);
    paint(memory.firstChild, found.records, names, (each) => each.mem_mib);
  };
  const frame = requestAnimationFrame(draw);
  window.addEventListener("resize", draw);
  document.documentElement.dataset.curves = String(found.records.length);
  return () => {
    cancelAnimationFrame(frame);
    window.removeEventListener("resize", draw);
  };
}

/**
 * @param {Measured[]} records @param {string[]} names @param {(one: Measured) => number} value @param {string} title
 */
function graph(records, names, value, title) {
  const ends = names.map((name) => {
    const last = /** @type {Measured} */ (ownOf(records, name).at(-1));
    return `${name} ${number(value(last))} (n = ${last.n})`;
  });
  return h(
    "figure",
    { class: "curves" },
    h("canvas", { role: "img", "aria-label": `${title}: ${ends.join("; ")}` }),
    h("figcaption", {}, `${title}, n →`),
  );
}

/** @param {Measured[]} records @param {string} name */
const ownOf = (records, name) => records.filter((one) => one.mechanism === name).sort((one, two) => one.n - two.n);

/** How much more the last doubling of the length takes. @param {Measured[]} records @param {string} name */
function bend(records, name) {
  const own = ownOf(records, name);
  const last = own[own.length - 1];
  const half = own.find((one) => 2 * one.n === last.n);
  return half && half.fwd_ms.p50 > 0 ? `×${number(last.fwd_ms.p50 / half.fwd_ms.p50)}` : "";
}

/** The line and the mark of a mechanism. @param {number} at */
function sample(at) {
  const canvas = h("canvas", { class: "sample", width: 44, height: 16, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  styled(context, at, 1.5);
  segment(context, [2, 8], [42, 8]);
  mark(context, 22, 8, at, 4);
  return canvas;
}

/** @param {CanvasRenderingContext2D} context @param {number} at @param {number} dots */
function styled(context, at, dots) {
  context.strokeStyle = lineColour(at, state.dark.peek());
  context.fillStyle = context.strokeStyle;
  context.lineWidth = 2 * dots;
  context.setLineDash(DASHES[Math.floor(at / 2) % DASHES.length].map((part) => part * dots));
}

/**
 * A circle, a square, a triangle or a diamond: colour is not the only sign.
 * @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} at @param {number} size
 */
function mark(context, x, y, at, size) {
  context.beginPath();
  const corners = [0, 4, 3, 4][at % 4];
  const turn = at % 4 === 1 ? Math.PI / 4 : -Math.PI / 2;
  if (!corners) context.arc(x, y, size, 0, 2 * Math.PI);
  for (let corner = 0; corner < corners; corner += 1) {
    const angle = turn + (2 * Math.PI * corner) / corners;
    context.lineTo(x + size * 1.25 * Math.cos(angle), y + size * 1.25 * Math.sin(angle));
  }
  context.fill();
}

/** @param {any} canvas @param {Measured[]} records @param {string[]} names @param {(one: Measured) => number} value */
function paint(canvas, records, names, value) {
  const context = sharp(canvas);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const across = scaled(
    records.map((one) => one.n),
    EDGE.left,
    width - EDGE.right,
  );
  const up = scaled(
    records.map((one) => Math.max(LEAST, value(one))),
    height - EDGE.bottom,
    EDGE.top,
  );
  axes(
    context,
    canvas,
    across,
    up,
    [...new Set(records.map((one) => one.n))].sort((one, two) => one - two),
    width,
    height,
  );
  names.forEach((name, at) => {
    const own = ownOf(records, name);
    const points = own.map((one) => [across.at(one.n), up.at(Math.max(LEAST, value(one)))]);
    styled(context, at, 1);
    context.beginPath();
    points.forEach(([x, y]) => context.lineTo(x, y));
    context.stroke();
    points.forEach(([x, y]) => mark(context, x, y, at, 3.5));
  });
}

/** Where a number lies on a logarithmic axis. @param {number[]} values @param {number} from @param {number} to */
function scaled(values, from, to) {
  const [least, most] = [Math.log10(Math.min(...values)), Math.log10(Math.max(...values))];
  const span = most - least || 1;
  return {
    least,
    most,
    at: (/** @type {number} */ value) => from + ((Math.log10(value) - least) / span) * (to - from),
  };
}

/**
 * @param {CanvasRenderingContext2D} context @param {any} canvas @param {any} across @param {any} up
 * @param {number[]} lengths @param {number} width @param {number} height
 */
function axes(context, canvas, across, up, lengths, width, height) {
  const style = getComputedStyle(canvas);
  context.strokeStyle = style.getPropertyValue("--line").trim();
  context.fillStyle = style.getPropertyValue("--soft").trim();
  context.font = "12px system-ui, sans-serif";
  context.lineWidth = 1;
  context.setLineDash([]);
  context.textAlign = "right";
  for (let power = Math.ceil(up.least); power <= Math.floor(up.most); power += 1) {
    const y = up.at(10 ** power);
    segment(context, [EDGE.left, y], [width - EDGE.right, y]);
    context.fillText(number(10 ** power), EDGE.left - 6, y + 4);
  }
  context.textAlign = "center";
  let free = 0;
  for (const n of lengths) {
    const x = across.at(n);
    segment(context, [x, EDGE.top], [x, height - EDGE.bottom]);
    const wide = context.measureText(String(n)).width;
    const middle = Math.min(x, width - wide / 2 - 1);
    if (middle - wide / 2 < free) continue;
    context.fillText(String(n), middle, height - EDGE.bottom + 18);
    free = middle + wide / 2 + 6;
  }
}

/** @param {Measured[]} records */
function table(records) {
  const rows = records.map((one) => [
    one.mechanism,
    one.n,
    number(one.fwd_ms.p50),
    number(one.fwd_ms.p90),
    number(one.mem_mib),
  ]);
  const titles = [t("mechanism"), "n", "ms p50", "ms p90", "MiB"];
  return h("div", { class: "scrolls", tabindex: 0 }, tableOf({}, titles, rows));
}
