// @ts-check
/** Pictures of examples that are no texts: the weights of one query over an image, under a spectrogram, on edges. */

import { FONT, coloursOf, contextOf, segment, wide as widthOf } from "../core/canvas.js";
import { getJson, getNumbers, query } from "../api.js";
import { coloured, drawn, firstWord, gridded, of, picture, sharpest } from "../core/overlay.js";
import { isAromatic, molecule, roomFor, stretched } from "../core/placing.js";
import { STRENGTH, lettersOn } from "../core/color.js";
import { cut, percent, together } from "../core/text.js";
import { h } from "../dom.js";
import * as state from "../state.js";
import { learn, phrase, t } from "../strings.js";
import { WORDS } from "../words/vision.js";
import { followDark } from "./follow_dark.js";
import { named } from "./overlay.js";

learn(WORDS);

/** @typedef {import("../core/npy.js").Numbers} Numbers */
/**
 * The story of a picture, its cell, and the colours of classes.
 * @typedef {{ story: any[], where: Record<string, string | number>, colours?: Record<string, string> }} Drawn
 */

/** Pixels of an atom with a letter, of a node in the middle and of others, of a bare atom; of letters. */
const [ATOM, MIDDLE, NODE, BARE, LETTERS] = [8, 7, 5, 2.5, 12];
/** Pixels of the letters of an element of one letter and of two. */
const ELEMENT = [11, 9];
/** Pixels from a node to the end of a picture: of one in which a name fits above it, of a molecule. */
const [ROOM, EDGE] = [22, 16];
/** Pixels between two names; by which a name is nearer to its node than to others. */
const [APART, NEARER] = [5, 2];
/** Pixels of a picture's height and of a drawing's width; of its widest line. */
const [HIGH, WIDE, WIDEST] = [150, 240, 7];
/** Words of a caption: what they are, and how many are asked for. */
const [WORD, WORDS_READ] = [/^\p{L}{3,}/u, 12];
const word = (/** @type {string} */ text) => h("bdi", {}, `“${cut(text.trim(), 14)}”`);

/** Numbers in one line with what they count. @param {string} text */
const firm = (text) => text.replace(/ (?=[\d行列])|(?<=第) /g, "\u00a0");

/** @param {ArrayLike<number>} row */
const largest = (row) => Array.from(row).reduce((most, value, at, all) => (value > all[most] ? at : most), 0);

/**
 * An image in grey under what the query of Vision looks at; of a caption the word that gives half its weight to
 * one place, else that on which the page opens.
 * @param {HTMLElement} place @param {state.Trace} trace @returns {Promise<Drawn | null>} null: no layer looks at places
 */
export async function image(place, trace) {
  const at = `/api/v1/traces/${trace.trace_id}`;
  const group = trace.groups.filter(({ name }) => trace.axes[name].keys.kind === "patches").pop();
  const pixels = picture(await getNumbers(`${at}/image`));
  const { covered, shape } = trace.places;
  const canvas = h("canvas", {
    width: Math.round((2 * HIGH * covered[1]) / covered[0]),
    height: 2 * HIGH,
    role: "img",
  });
  const plain = { weights: null, axis: { grid: [1, 1], before: 0 }, strength: 0, covered, shape, ramp: "" };
  place.append(canvas);
  if (!group) {
    drawn(canvas, pixels, plain);
    return null;
  }
  // what is said of colours can be seen beside the picture in grey
  if (coloured(pixels)) {
    const original = h("canvas", { width: canvas.width, height: canvas.height, "aria-hidden": "true" });
    drawn(original, pixels, plain);
    place.classList.add("two");
    place.prepend(original);
  }
  const { queries, keys } = trace.axes[group.name];
  const axis = /** @type {import("../core/overlay.js").Patches} */ (keys);
  const layer = group.opens ? group.opens[0] : group.layers.length - 1;
  const writes = queries.kind !== "patches";
  const looked = (/** @type {number} */ q) => lookedAt(at, group, layer, q, axis);
  const first = await looked(writes ? firstWord(group.queries) : (trace.places.chosen ?? 0));
  const words = writes ? group.queries.map((_, q) => q).filter((q) => WORD.test(group.queries[q].trim())) : [];
  const others = await Promise.all(words.slice(0, WORDS_READ).map(looked));
  const most = others.reduce((one, other) => (other.weights[other.k] > one.weights[one.k] ? other : one), first);
  const { q, k, head, weights } = most.weights[most.k] < 0.5 ? first : most;
  canvas.setAttribute("aria-label", `${t("vision")}: ${named(k, axis)} ${percent(weights[k], 1)}`);
  followDark(() => {
    drawn(canvas, pixels, { weights, axis, strength: STRENGTH, covered, shape, ramp: state.inks() });
    const [page, mark] = coloursOf(canvas, "--page", "--mark");
    gridded(canvas, axis, { lines: false, marks: [[k, mark]], page, dots: 2 });
  }, canvas);
  const from = writes ? word(group.queries[q]) : q < axis.before ? t("the_class") : named(q, axis);
  const story = phrase(
    "story_place",
    from,
    together(percent(weights[k], 1)),
    firm(t("place_of", named(k, axis), ...axis.grid)),
  );
  return { story, where: { g: group.name, l: layer, h: head, ea: "1", ...(writes ? { q } : {}) } };
}

/**
 * The head of the fewest places, as Vision opens, and the place that it looks at most.
 * @param {string} at @param {state.Group} group @param {number} layer @param {number} q
 * @param {import("../core/overlay.js").Patches} axis
 */
async function lookedAt(at, group, layer, q, axis) {
  const rows = await getNumbers(`${at}/row?${query({ group: group.name, q })}`);
  const head = sharpest(rows, layer, axis);
  const weights = of(rows, layer, head);
  return { q, head, weights, k: axis.before + largest(Array.from(weights).slice(axis.before)) };
}

/**
 * A spectrogram, under it the weights of one row as bars.
 * @param {HTMLElement} place @param {state.Trace} trace @param {state.Group} group @param {number} layer
 * @returns {Promise<Drawn>}
 */
export async function sound(place, trace, group, layer) {
  const at = `/api/v1/traces/${trace.trace_id}`;
  const { shape, data } = await getNumbers(`${at}/sound`);
  const pair = await getJson(`${at}/salient?${query({ layer: group.layers[layer] })}`);
  const row = of(await getNumbers(`${at}/row?${query({ group: group.name, q: pair.query })}`), layer, pair.head);
  const canvas = h("canvas", { width: shape[1], height: shape[0], "aria-hidden": "true" });
  const context = contextOf(canvas);
  const pixels = context.createImageData(shape[1], shape[0]);
  data.forEach((loud, pixel) => pixels.data.set([loud, loud, loud, 255], 4 * pixel));
  context.putImageData(pixels, 0, 0);
  const most = Math.max(...row);
  const bars = Array.from(row, (weight, k) => {
    const bar = h("i", { class: k === pair.key ? "on" : null });
    bar.style.height = `${(100 * weight) / most}%`;
    return bar;
  });
  place.classList.add("across");
  place.append(canvas, h("span", { class: "bars", "aria-hidden": "true" }, bars));
  const story = phrase("story_moment", together(percent(row[pair.key], 1)), group.keys[pair.key]);
  return { story, where: { l: layer, h: pair.head, q: pair.query, k: pair.key } };
}

/**
 * A node with its neighbours, or a molecule: lines as wide as the weights of the head that is least even.
 * @param {HTMLElement} place @param {state.Trace} trace @returns {Promise<Drawn | null>}
 */
export async function graph(place, trace) {
  const at = `/api/v1/traces/${trace.trace_id}`;
  const group = trace.groups.find(({ name }) => trace.axes[name].queries.kind === "nodes");
  if (!group) return null;
  const alone = trace.places.chosen !== null;
  const which = query({ group: group.name, hops: 1, ...(alone ? {} : { most: 120 }) });
  const [part, edges] = await Promise.all([getJson(`${at}/graph?${which}`), getNumbers(`${at}/edges?${which}`)]);
  const [, heads, count] = edges.shape;
  const shown = part.pairs
    .map((/** @type {number[]} */ [q, k], /** @type {number} */ edge) => ({ q, k, edge }))
    .filter((/** @type {any} */ { q, k }) => q !== k && (!alone || q === 0));
  // of the first layer, which is where the page opens
  const all = shown.flatMap((/** @type {any} */ one) =>
    Array.from({ length: heads }, (_, head) => ({ ...one, head, weight: edges.data[head * count + one.edge] })),
  );
  const strongest = (/** @type {any[]} */ edges) =>
    edges.reduce((most, one) => (most && most.weight >= one.weight ? most : one), null);
  const head = group.opens ? group.opens[1] : (strongest(all)?.head ?? 0);
  const best = strongest(all.filter((/** @type {any} */ one) => one.head === head));
  // letters have their size however small the picture is
  const [wide, high] = [Math.min(WIDE, place.clientWidth || WIDE), place.clientHeight || HIGH];
  const canvas = h("canvas", { width: 2 * wide, height: 2 * high, role: "img", "aria-label": t("graph") });
  canvas.style.width = `${wide}px`;
  place.append(canvas);
  const drawing = all.filter((/** @type {any} */ one) => one.head === head);
  followDark(() => lines(canvas, part, drawing, alone, best ? [best.q, best.k].slice(alone ? 1 : 0) : []), canvas);
  if (!best) return null;
  const name = (/** @type {number} */ node) => word(part.nodes[node].name);
  const story = phrase("story", name(best.q), together(percent(best.weight, 1)), name(best.k));
  if (part.bonds.length && [best.q, best.k].some((node) => isAromatic(part.nodes[node])))
    story.push(" ", h("span", { class: "side" }, t("aromatic")));
  return { story, where: { g: group.name, l: 0, h: head, ...(alone ? {} : { q: best.q }) }, colours: part.colours };
}

/**
 * @param {HTMLCanvasElement} canvas @param {any} part @param {any[]} shown
 * @param {boolean} alone one node is in the middle @param {number[]} titled nodes with their names
 */
function lines(canvas, part, shown, alone, titled) {
  const context = contextOf(canvas);
  const [faint, strong, ink] = coloursOf(canvas, "--faint", "--link", "--ink");
  const [wide, high] = [canvas.width / 2, canvas.height / 2];
  context.setTransform(2, 0, 0, 2, 0, 0);
  context.clearRect(0, 0, wide, high);
  const { spots } = part.bonds.length
    ? molecule(part.nodes, part.bonds, wide, high, { edge: EDGE })
    : stretched(part.nodes, wide, high, { edge: ROOM });
  const line = (
    /** @type {number[]} */ one,
    /** @type {number[]} */ two,
    /** @type {number} */ wide,
    colour = faint,
  ) => {
    [context.strokeStyle, context.lineWidth] = [colour, wide];
    segment(context, one, two);
  };
  for (const [q, k] of part.pairs) if (q < k) line(spots[q], spots[k], 1);
  const most = Math.max(1e-9, ...shown.map(({ weight }) => weight));
  for (const { q, k, weight } of shown) {
    const [[x, y], [right, down]] = [spots[q], spots[k]];
    const to = alone ? [right, down] : [(x + right) / 2, (y + down) / 2];
    line([x, y], to, Math.max(0.5, (WIDEST * weight) / most), strong);
  }
  /** @type {number[][]} */
  const boxes = [];
  part.nodes.forEach((/** @type {any} */ { kind }, /** @type {number} */ at) => {
    const colour = part.kinds.find((/** @type {[string, string]} */ [name]) => name === kind)[1];
    const lettered = part.bonds.length && kind !== "C";
    const radius = alone ? (at ? NODE : MIDDLE) : lettered ? ATOM : BARE;
    boxes.push([...spots[at], radius, radius]);
    context.fillStyle = part.bonds.length && kind === "C" ? ink : colour;
    context.beginPath();
    context.arc(spots[at][0], spots[at][1], radius, 0, 2 * Math.PI);
    context.fill();
    if (lettered) write(context, kind, spots[at], lettersOn(colour), { size: ELEMENT[kind.length > 1 ? 1 : 0] });
  });
  const [page, mark] = coloursOf(canvas, "--panel", "--mark");
  for (const node of titled) {
    const { name } = part.nodes[node];
    const half = [widthOf(name, LETTERS) / 2 + 2, LETTERS / 2 + 1];
    const spot = roomFor(node, half, { spots, pairs: part.pairs, boxes, field: [wide, high], nearer: NEARER });
    if (!spot) continue;
    // two names on each other read as one
    boxes.push([...spot, half[0] + APART, half[1] + APART]);
    write(context, name, spot, mark, { halo: page });
  }
}

/**
 * @param {CanvasRenderingContext2D} context @param {string} text @param {number[]} spot @param {string} colour
 * @param {{ size?: number, halo?: string }} [how] pixels of its letters, and a colour around them
 */
function write(context, text, [x, y], colour, { size = LETTERS, halo } = {}) {
  [context.textAlign, context.textBaseline] = ["center", "middle"];
  context.font = `700 ${size}px ${FONT}`;
  if (halo) {
    [context.strokeStyle, context.lineWidth] = [halo, 3];
    context.strokeText(text, x, y);
  }
  context.fillStyle = colour;
  context.fillText(text, x, y);
}
