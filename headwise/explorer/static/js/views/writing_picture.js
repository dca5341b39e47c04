// @ts-check
/** The picture that is written about: where the step looks on it, and below where each token so far did. */

import { STRENGTH } from "../core/color.js";
import { drawn, gridded, picture } from "../core/overlay.js";
import { lookOf } from "../core/search.js";
import { percent, shown } from "../core/text.js";
import { h } from "../dom.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { t } from "../strings.js";
import { looking } from "./writing.js";

/** @typedef {import("../core/search.js").Beam} Beam */
/** @typedef {import("../core/search.js").Search} Search */

const [LARGE, SMALL] = [256, 72];

/**
 * @param {HTMLElement} place @param {Search} it
 * @param {Beam[]} path as far as it is shown
 * @param {(step: number) => void} go
 */
export function mount(place, it, path, go) {
  const image = picture(/** @type {import("../core/npy.js").Numbers} */ (it.pixels));
  const [layer, head] = looking(it);
  const looks = path.map((beam) => lookOf(it, beam, layer, head));
  const last = path.length - 1;
  const paint = [large(it, image, looks[last], last >= 0 ? path[last].text : "")];
  const each = path.map((beam, at) => small(it, image, looks[at], beam, at === last, () => go(at)));
  place.append(
    paint[0].node,
    h(
      "div",
      { class: "looked", role: "group", "aria-label": t("looks") },
      each.map((one) => one.node),
    ),
  );
  // the ramp is one of the page
  return effect(() => {
    void state.dark.value;
    [...paint, ...each].forEach((one) => one.draw());
  });
}

/** @param {Search} it @param {HTMLCanvasElement} image @param {Float32Array | null} look @param {string} token */
function large(it, image, look, token) {
  const node = h("canvas", { class: "over read", role: "img", "aria-label": told(it, look, token) });
  return { node, draw: () => painted(node, LARGE, it, image, look, true) };
}

/**
 * @param {Search} it @param {HTMLCanvasElement} image @param {Float32Array | null} look @param {Beam} beam
 * @param {boolean} now @param {() => void} go
 */
function small(it, image, look, beam, now, go) {
  const canvas = h("canvas", { class: "over" });
  const node = h(
    "button",
    {
      class: now ? "look chosen" : "look",
      "aria-label": told(it, look, beam.text),
      "aria-current": now ? "step" : null,
      onclick: go,
    },
    canvas,
    h("span", {}, shown(beam.text)),
  );
  return { node, draw: () => painted(canvas, SMALL, it, image, look, false) };
}

/**
 * @param {HTMLCanvasElement} canvas @param {number} side @param {Search} it @param {HTMLCanvasElement} image
 * @param {Float32Array | null} weights @param {boolean} lines
 */
function painted(canvas, side, it, image, weights, lines) {
  const { covered, shape } = it.start.image;
  const axis = it.start.axis;
  const dots = window.devicePixelRatio || 1;
  const scale = side / Math.max(...covered);
  canvas.style.width = `${covered[1] * scale}px`;
  canvas.style.height = `${covered[0] * scale}px`;
  canvas.width = Math.round(covered[1] * scale * dots);
  canvas.height = Math.round(covered[0] * scale * dots);
  const css = getComputedStyle(document.documentElement);
  const page = css.getPropertyValue("--page").trim();
  drawn(canvas, image, { weights, axis, strength: weights ? STRENGTH : 0, covered, shape, ramp: state.inks() });
  const fits = canvas.width / Math.max(...axis.grid) >= 5 * dots;
  gridded(canvas, axis, { lines: lines && fits, marks: [], page, dots });
}

/**
 * A token, and the places that it looks at most.
 * @param {Search} it @param {Float32Array | null} look @param {string} token
 */
function told(it, look, token) {
  if (!look) return shown(token);
  const order = Array.from(look, (value, place) => ({ value, place }))
    .sort((one, two) => two.value - one.value)
    .slice(0, 3);
  return `${shown(token)}: ${order.map(({ value, place }) => `${it.first[place]} ${percent(value, 0)}`).join("; ")}`;
}
