// @ts-check
/**
 * The spectrogram of a recording along a map of times, the chosen row as a line over it.
 */

import { coloursOf, contextOf, density } from "../core/canvas.js";
import { getNumbers } from "../api.js";
import { h } from "../dom.js";
import { painted } from "../core/heatmap.js";
import { learn, t } from "../strings.js";
import { WORDS } from "../words/sides.js";

learn(WORDS);

/**
 * @typedef {(window: import("../core/zoom.js").Window, bounds: import("../core/zoom.js").Bounds, row: Float32Array |
 * null) => void} Draw draws what is seen, and over it a row of weights
 * @typedef {{ beside: (sides: { left: HTMLElement, top: HTMLElement }) => Draw, key: string,
 * sides: { from: string, to: string } }} Beside what stands along the sides of a map, words for it, how they are called
 */

/** As on Home: louder is lighter. */
const GREY = "grey dark";
/** Pixels of a strip; of one above a few rows, which leave the room. */
const [DEEP, ALONE, FEW] = [64, 200, 3];

/**
 * The spectrogram of a trace whose group has times, to be put beside a map.
 * @param {import("../state.js").Trace} trace @param {import("../state.js").Group} group
 */
export async function heard(trace, group) {
  const numbers = await getNumbers(`/api/v1/traces/${trace.trace_id}/sound`);
  const { queries, keys } = trace.axes[group.name];
  const times = { queries: queries.kind === "frames", keys: keys.kind === "frames" };
  const sides = { from: times.queries ? "from_time" : "attends_from", to: times.keys ? "to_time" : "attends_to" };
  return { beside: beside(numbers, times), sides, key: "sound_key" };
}

/**
 * @param {import("../core/npy.js").Numbers} numbers bands by frames, the highest first
 * @param {{ queries: boolean, keys: boolean }} times which sides are times
 * @returns {(sides: { left: HTMLElement, top: HTMLElement }) => Draw}
 */
export const beside =
  (numbers, { queries, keys }) =>
  (sides) => {
    const [bands, frames] = numbers.shape;
    const loud = Int16Array.from(numbers.data);
    const turned = loud.map((_, at) => loud[(at % bands) * frames + Math.floor(at / bands)]);
    const strip = () =>
      h("canvas", { class: "strip-of-sound", role: "img", "aria-label": t("spectrogram"), title: t("spectrogram") });
    const [top, left] = [keys ? strip() : null, queries ? strip() : null];
    const upwards = h("span", { class: "axis-title upwards" }, t("frequency"));
    if (top) sides.top.append(upwards, top);
    if (left) sides.left.append(left);
    if (left) left.style.width = `${DEEP}px`;
    return ({ x, y, side, tall = side }, { rows, columns, width, height }, row) => {
      const [across, down] = [width / side / columns, height / tall / rows];
      if (left)
        drawn(left, DEEP, height, painted(turned, frames, bands, GREY), [0, (y / rows) * frames, bands, down * frames]);
      if (!top) return;
      const deep = rows <= FEW ? ALONE : DEEP;
      upwards.hidden = deep < ALONE;
      drawn(top, width, deep, painted(loud, bands, frames, GREY), [(x / columns) * frames, 0, across * frames, bands]);
      if (row) lined(top, row, x, top.width / (width / side));
    };
  };

/**
 * A row of weights as steps over a picture: from its lower edge, no weight, to near its upper one, the largest.
 * @param {HTMLCanvasElement} canvas @param {Float32Array} row @param {number} from the first key that is seen
 * @param {number} each pixels of a key
 */
function lined(canvas, row, from, each) {
  const context = contextOf(canvas);
  const [colour, top] = [coloursOf(canvas, "--mark")[0], Math.max(...row, 1e-12)];
  context.beginPath();
  context.moveTo(0, canvas.height);
  row.forEach((weight, at) => {
    const height = canvas.height * (1 - 0.9 * Math.max(0, weight / top));
    context.lineTo((at - from) * each, height);
    context.lineTo((at + 1 - from) * each, height);
  });
  context.lineTo(canvas.width, canvas.height);
  context.strokeStyle = colour;
  context.lineWidth = 2 * density();
  // what is below the line stays to be seen
  context.stroke();
}

/**
 * @param {HTMLCanvasElement} canvas @param {number} width @param {number} height @param {HTMLCanvasElement} image
 * @param {number[]} part left, top, width and height
 */
function drawn(canvas, width, height, image, [left, top, across, down]) {
  const dots = density();
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  [canvas.width, canvas.height] = [Math.round(width * dots), Math.round(height * dots)];
  const context = contextOf(canvas);
  context.drawImage(image, left, top, across, down, 0, 0, canvas.width, canvas.height);
}
