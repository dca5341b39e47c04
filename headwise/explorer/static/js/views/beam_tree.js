// @ts-check
/**
 * The tree of a search: a button for each beginning, lines to its children, drawn up to the step that is
 * shown.
 */

import { coloursOf, density, sharp } from "../core/canvas.js";
import { fill, h } from "../dom.js";
import { effect } from "../store.js";
import { cut, decimals, percent, shown } from "../core/text.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/** Pixels of a step, of one that has room; of a lane; of the root. */
const [WIDE, ROOMY, TALL, ROOT] = [86, 140, 34, 14];
/** Pixels of a step that has room for a number. */
const NUMBERED = 110;
/** What goes on beyond an edge fades over so much. */
const FADE = "2.5rem";
/** No browser draws on a wider canvas. */
const WIDEST = 32000;

/**
 * @param {HTMLElement} place @param {import("../core/search.js").Search} search
 * @param {import("../core/tree.js").Layout} found where its beams stand
 * @param {{ step: () => number, path: () => Set<number>, choose: (id: number) => void }} follow what is shown now
 */
export function mount(place, search, found, follow) {
  const canvas = h("canvas", { class: "branches", "aria-hidden": "true" });
  const area = h("div", { class: "tree", role: "group" }, canvas);
  // a short tree takes the room that there is
  const wide = Math.floor(Math.max(WIDE, Math.min(ROOMY, (place.clientWidth - ROOT) / found.steps)));
  const size = { wide, width: ROOT + wide * found.steps, height: TALL * Math.max(1, found.lanes) };
  area.style.width = canvas.style.width = `${size.width}px`;
  area.style.height = canvas.style.height = `${size.height}px`;
  // more of them may be known by now than were laid out
  const known = [...search.beams.values()].filter(({ id }) => found.places.has(id));
  area.append(...known.map((beam) => leaf(beam, found, wide, follow)));
  const line = h("p", { class: "side", role: "status" });
  fill(place, area);
  place.after(line);
  const faded = () => {
    const beyond = place.scrollWidth - place.clientWidth - place.scrollLeft;
    place.style.setProperty("--left", place.scrollLeft > 1 ? FADE : "0px");
    place.style.setProperty("--right", beyond > 1 ? FADE : "0px");
  };
  place.onscroll = faded;
  const end = effect(() => {
    // the colour of lines is that of the page
    void state.dark.value;
    const [step, path] = [follow.step(), follow.path()];
    draw(canvas, size, search, found, step, path);
    const right = ROOT + wide * (step + 1);
    // no further than the step needs: what came before it stays in sight
    place.scrollLeft = Math.max(0, right - place.clientWidth);
    faded();
    const node = search.beams.get(state.node.value);
    const beam = node && node.t <= step ? node : search.beams.get([...path].pop() || 0);
    line.textContent = beam ? told(beam) : "";
  });
  return () => {
    end();
    line.remove();
  };
}

/** @param {import("../core/search.js").Beam} beam */
const told = ({ text, logp, score }) =>
  t("leaf", shown(text), percent(Math.exp(logp), 1), decimals(score, 2).replace("-", "−"));

/**
 * @param {import("../core/search.js").Beam} beam @param {import("../core/tree.js").Layout} found
 * @param {number} wide pixels of a step
 * @param {{ step: () => number, path: () => Set<number>, choose: (id: number) => void }} follow
 */
function leaf(beam, found, wide, follow) {
  const { x, y } = /** @type {{ x: number, y: number }} */ (found.places.get(beam.id));
  const roomy = wide >= NUMBERED;
  const button = h(
    "button",
    {
      class: () => ["leaf", beam.done && "done", follow.path().has(beam.id) && "chosen"].filter(Boolean).join(" "),
      hidden: () => beam.t > follow.step(),
      "aria-pressed": () => String(follow.path().has(beam.id)),
      "aria-label": told(beam),
      title: told(beam),
      "data-id": beam.id,
      onclick: () => follow.choose(beam.id),
    },
    cut(beam.text, Math.floor((wide - (roomy ? 40 : 0)) / 9)),
    roomy && h("small", {}, percent(Math.exp(beam.logp), 0)),
  );
  button.style.left = `${ROOT + wide * x + 12}px`;
  button.style.width = `${wide - 18}px`;
  button.style.top = `${TALL * y + 4}px`;
  return button;
}

/**
 * @param {HTMLCanvasElement} canvas @param {{ wide: number, width: number, height: number }} size
 * @param {import("../core/search.js").Search} search @param {import("../core/tree.js").Layout} found
 * @param {number} step @param {Set<number>} path
 */
function draw(canvas, size, search, found, step, path) {
  const dots = Math.min(density(), WIDEST / size.width);
  const context = sharp(canvas, size.width, size.height, dots);
  const [plain, marked] = coloursOf(canvas, "--soft", "--mark");
  const middle = (/** @type {number} */ y) => TALL * (y + 0.5);
  context.fillStyle = plain;
  context.beginPath();
  context.arc(ROOT / 2, middle(0), 3, 0, 7);
  context.fill();
  // those of the path last, on top
  const beams = [...search.beams.values()].filter((beam) => beam.t <= step && found.places.has(beam.id));
  beams.sort((one, two) => Number(path.has(one.id)) - Number(path.has(two.id)));
  for (const beam of beams) {
    const to = /** @type {{ x: number, y: number }} */ (found.places.get(beam.id));
    const from = found.places.get(beam.parent);
    const left = from ? ROOT + size.wide * (from.x + 1) - 6 : ROOT / 2;
    const right = ROOT + size.wide * to.x + 12;
    const bend = (left + right) / 2;
    context.strokeStyle = path.has(beam.id) ? marked : plain;
    context.globalAlpha = path.has(beam.id) ? 1 : 0.6;
    // a likely token has a thick line
    context.lineWidth = 0.75 + 3 * Math.exp(beam.logp);
    context.beginPath();
    context.moveTo(left, middle(from ? from.y : 0));
    context.bezierCurveTo(bend, middle(from ? from.y : 0), bend, middle(to.y), right, middle(to.y));
    context.stroke();
  }
}
