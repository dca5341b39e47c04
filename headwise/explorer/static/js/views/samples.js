// @ts-check
/** Pictures to try where a model has none of its own: drawn here, and sent as a file is. */

import { follow, h } from "../dom.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { WORDS } from "../words/examples.js";

learn(WORDS);

/** Pixels of a side. */
const SIDE = 224;

/** @typedef {CanvasRenderingContext2D} Pen */

/** What is drawn, by its name; a picture has 100 units to a side. @type {Record<string, (pen: Pen) => void>} */
const DRAWN = {
  shapes(pen) {
    filled(pen, "#f4f1ea", (path) => path.rect(0, 0, 100, 100));
    filled(pen, "#d62728", (path) => path.arc(28, 36, 18, 0, 7));
    filled(pen, "#1f77d4", (path) => path.rect(55, 55, 34, 34));
  },
  house(pen) {
    filled(pen, "#9fd3f5", (path) => path.rect(0, 0, 100, 70));
    filled(pen, "#5c9e45", (path) => path.rect(0, 70, 100, 30));
    filled(pen, "#ffd23f", (path) => path.arc(80, 20, 11, 0, 7));
    filled(pen, "#e8d8b9", (path) => path.rect(22, 45, 40, 35));
    corners(pen, "#a33b2a", [16, 46, 42, 22, 68, 46]);
    filled(pen, "#6b4a2b", (path) => path.rect(36, 60, 12, 20));
  },
  seven(pen) {
    filled(pen, "#000000", (path) => path.rect(0, 0, 100, 100));
    Object.assign(pen, { strokeStyle: "#ffffff", lineWidth: 11, lineCap: "round", lineJoin: "round" });
    pen.beginPath();
    pen.moveTo(28, 24);
    pen.lineTo(72, 24);
    pen.lineTo(44, 80);
    pen.stroke();
  },
};

/** @param {Pen} pen @param {string} colour @param {(path: Pen) => void} shape */
function filled(pen, colour, shape) {
  pen.fillStyle = colour;
  pen.beginPath();
  shape(pen);
  pen.fill();
}

/** @param {Pen} pen @param {string} colour @param {number[]} points x and y in turn */
const corners = (pen, colour, points) =>
  filled(pen, colour, (path) => {
    for (let at = 0; at < points.length; at += 2) path.lineTo(points[at], points[at + 1]);
  });

/** @param {HTMLElement} place @returns {() => void} */
export function mount(place) {
  const home = !state.page.peek();
  const node = h(
    "div",
    { class: "controls", role: "group", "aria-label": () => t("samples") },
    // where nothing is shown, the line above says it
    home ? null : h("span", { class: "side", hidden: () => !state.trace.value }, () => t("samples")),
    h(
      "span",
      { class: "tokens" },
      Object.keys(DRAWN).map((name) => sample(name, home)),
    ),
  );
  place.append(node);
  return () => node.remove();
}

/** A picture that the address names; a name that is not here goes. @param {string} name */
export function draw(name) {
  if (state.reads() !== "image" || !Object.hasOwn(DRAWN, name)) state.instead(() => (state.sample.value = ""));
  else if (!state.upload.peek() && name === state.sample.peek()) state.upload.value = encoded(drawn(name));
}

/** @param {string} name @returns {HTMLCanvasElement} */
function drawn(name) {
  const canvas = h("canvas", { width: SIDE, height: SIDE });
  const pen = canvas.getContext("2d");
  pen.scale(SIDE / 100, SIDE / 100);
  DRAWN[name](pen);
  return canvas;
}

/** As a file is sent: without what says how it is written. @param {HTMLCanvasElement} canvas */
const encoded = (canvas) => canvas.toDataURL("image/png").split(",")[1];

/** @param {string} name @param {boolean} home it opens the page that shows it */
function sample(name, home) {
  const canvas = drawn(name);
  canvas.style.display = "block";
  follow(canvas, () => void (canvas.style.width = home ? "min(11rem, 26vw)" : state.trace.value ? "2.5rem" : "6rem"));
  const words = () => t(`sample_${name}`);
  const title = home ? h("span", {}, words) : null;
  // no wider than its picture
  if (title) title.style.cssText = "display: block; contain: inline-size; white-space: normal";
  const button = h(
    "button",
    {
      class: () => (state.sample.value === name ? "token chosen" : "token"),
      title: words,
      "aria-label": words,
      "aria-pressed": () => String(state.sample.value === name),
      onclick: () => {
        if (home) state.page.value = "vision";
        state.give({ upload: encoded(canvas), sample: name });
      },
    },
    canvas,
    title,
  );
  button.style.cssText = "padding: 3px; align-self: start";
  return button;
}
