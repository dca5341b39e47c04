// @ts-check
/** What the pixels of a picture are said to be, beside what they are; a legend of the classes and their shares. */

import { percent } from "../core/text.js";
import { h } from "../dom.js";
import { t } from "../strings.js";
import { swatch } from "./swatch.js";

/** @typedef {import("../core/npy.js").Numbers} Numbers */

const NONE = 255;

/**
 * @param {HTMLElement} place
 * @param {[string, string][]} classes names and colours
 * @param {Numbers} labels as said, and as they are
 */
export function mount(place, classes, labels) {
  const [count, height, width] = labels.shape;
  const size = height * width;
  const maps = Array.from(
    { length: count },
    (_, at) => /** @type {Uint8Array} */ (labels.data.subarray(at * size, (at + 1) * size)),
  );
  const told = h("p", { class: "legend" }, summary(maps));
  const figures = maps.map((map, at) => {
    const name = at ? "labels_true" : "labels_said";
    const canvas = painted(map, height, width, classes);
    canvas.setAttribute(
      "aria-label",
      `${t(name)}: ${shares(map, classes)
        .map(([label, share]) => `${label} ${share}`)
        .join(", ")}`,
    );
    canvas.addEventListener(
      "pointermove",
      (/** @type {PointerEvent} */ event) => (told.textContent = under(event, canvas, maps, classes)),
    );
    canvas.addEventListener("pointerleave", () => (told.textContent = summary(maps)));
    return h("figure", {}, h("figcaption", {}, t(name)), canvas);
  });
  const present = classes.map((one, at) => ({ one, at })).filter(({ at }) => maps.some((map) => map.includes(at)));
  const legend = present.map(({ one, at }) =>
    h("span", { class: "kind" }, swatch(one[1]), `${one[0]} ${maps.map((map) => share(map, at)).join(" / ")}`),
  );
  place.append(
    h("h2", {}, t("labels")),
    h("div", { class: "labelled" }, figures),
    told,
    h("div", { class: "kinds legend" }, legend),
  );
  if (count < 2) place.append(h("p", { class: "note" }, t("labels_unknown")));
}

/** @param {Uint8Array} map @param {number} height @param {number} width @param {[string, string][]} classes */
function painted(map, height, width, classes) {
  const canvas = h("canvas", { class: "over", role: "img", width, height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const colours = classes.map(([, colour]) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)));
  map.forEach((label, at) => {
    // what counts nowhere is left clear
    if (label !== NONE) image.data.set([...colours[label], 255], 4 * at);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/** How many pixels are right, of those that count. @param {Uint8Array[]} maps */
function summary([said, known]) {
  if (!known) return "";
  let [right, all] = [0, 0];
  known.forEach((label, at) => {
    if (label === NONE) return;
    all += 1;
    right += Number(said[at] === label);
  });
  const counts = `${right.toLocaleString("en")} / ${all.toLocaleString("en")}`;
  return `${t("labels_right")}: ${all ? percent(right / all, 1) : "– %"} (${counts})`;
}

/** The part of the pixels that have a label. @param {Uint8Array} map @param {number} label */
const share = (map, label) => percent(map.reduce((sum, one) => sum + Number(one === label), 0) / map.length, 1);

/** @param {Uint8Array} map @param {[string, string][]} classes */
const shares = (map, classes) => classes.flatMap(([name], at) => (map.includes(at) ? [[name, share(map, at)]] : []));

/**
 * The classes of the pixel under the pointer.
 * @param {PointerEvent} event @param {HTMLCanvasElement} canvas @param {Uint8Array[]} maps
 * @param {[string, string][]} classes
 */
function under(event, canvas, maps, classes) {
  const box = canvas.getBoundingClientRect();
  const within = (/** @type {number} */ value, /** @type {number} */ most) =>
    Math.max(0, Math.min(most - 1, Math.floor(value)));
  const row = within(((event.clientY - box.top) / box.height) * canvas.height, canvas.height);
  const column = within(((event.clientX - box.left) / box.width) * canvas.width, canvas.width);
  const names = maps.map((map, at) => {
    const label = map[row * canvas.width + column];
    return `${t(at ? "labels_true" : "labels_said")} ${label === NONE ? t("nothing") : classes[label][0]}`;
  });
  return `${t("row")} ${row + 1}, ${t("column")} ${column + 1}: ${names.join(", ")}`;
}
