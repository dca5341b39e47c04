// @ts-check
/** What a drawing of nodes has behind its nodes: edges or bonds, weights as wide lines, and their numbers. */

import { coloursOf, segment, sharp, wide } from "../core/canvas.js";
import { inward, isClear, isOwn, roomFor } from "../core/placing.js";
import { share } from "../core/text.js";

/** @typedef {import("../pages/graph.js").Part} Part */
/** @typedef {{ q: number, k: number, weight: number }} Edge */
/**
 * @typedef {{ spots: number[][], boxes: number[][], numbers: Numbered[], now: number, shown: Edge[], most: number,
 * band: number, letters: number }} How `boxes`: of each node, the middle, half of the width and of the height;
 * `numbers`: beside nodes; `shown`: from the largest on; `most`: the weight of the widest line, of `band`
 * pixels; `letters`: pixels of one
 */
/** @typedef {{ text: string, box: number[] }} Numbered */

/** Pixels of a line of a bond, and between two of a double one. */
const [BOND, APART] = [1.6, 5];
/** Where a number of a bond may stand: on one side, on the other, a little further away. */
const AWAY = [1, -1, 1.6, -1.6];
/** Pixels by which other bonds are further from a number than its own: with room, at least, of one node; between. */
const [CLEARLY, RATHER, HARDLY, GAP] = [7, 5, -0.5, 4];
/** Pixels by which another atom is further from a number than its own. */
const NEARER = 6;

/** @param {HTMLCanvasElement} canvas @param {Part} part @param {How} how */
export function draw(canvas, part, { spots, boxes, numbers, now, shown, most, band, letters }) {
  const [width, height] = [Math.max(1, canvas.clientWidth), Math.max(1, canvas.clientHeight)];
  const context = sharp(canvas, width, height);
  const [faint, strong, page, ink, soft] = coloursOf(canvas, "--faint", "--weight", "--page", "--ink", "--soft");
  const line = (/** @type {number[][]} */ [from, to], /** @type {number} */ wide, ink = faint) => {
    context.strokeStyle = ink;
    context.lineWidth = wide;
    segment(context, from, to);
  };
  const bonded = new Set(part.bonds.map(([one, two]) => `${Math.min(one, two)},${Math.max(one, two)}`));
  for (const [q, k] of part.pairs) if (q < k && !bonded.has(`${q},${k}`)) line([spots[q], spots[k]], 1);
  // the two directions between two nodes share a line: each half is as wide as what the node at its end gives
  for (const { q, k, weight } of shown)
    line([spots[q], between(spots[q], spots[k], now < 0 ? 0.5 : 1)], Math.max(0.5, (band * weight) / most), strong);
  for (const bond of part.bonds) bonds(context, spots, part.bonds, bond, (ends) => line(ends, BOND, soft));

  const taken = [...boxes, ...numbers.map(({ box }) => box)];
  context.font = `600 ${letters}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillStyle = soft;
  for (const { text, box } of numbers) context.fillText(text, box[0], box[1]);
  for (const { q, k, weight } of shown) {
    const text = share(weight);
    // a dot on a line says nothing: the weight is in the map
    if (text === "·") continue;
    const [across, tall] = [wide(text, letters) / 2 + 2, letters / 2 + 2];
    const beside = part.bonds.length
      ? besideOf(spots, part.bonds, q, k, [across, tall], (band * weight) / most / 2)
      : null;
    const clear = (/** @type {number[]} */ spot, /** @type {number} */ more) =>
      isClear(spot, [across + more, tall + more], taken, [width, height]);
    const owned = (/** @type {number[]} */ spot, /** @type {number} */ by) =>
      isOwn(spot, spots, part.bonds, [q, k], { by, half: across - 2 });
    // the larger weights come first; what would cover one of them on either side is in the list beside the drawing
    const at = now < 0 ? 0.32 : 0.58;
    const ways = beside ? [at, at - 0.12, at + 0.15].flatMap((along) => AWAY.map((side) => [along, side])) : [[at, 0]];
    const free = ways
      .map(([along, side]) => {
        const [x, y] = between(spots[q], spots[k], along);
        return { spot: [x + side * (beside?.[0] || 0), y + side * (beside?.[1] || 0)], far: along > at };
      })
      .filter(({ spot }) => clear(spot, 1) && owned(spot, now < 0 ? RATHER : HARDLY));
    const clearly = free.filter(({ spot }) => owned(spot, CLEARLY));
    // two numbers on each other read as one, and one further along a bond could be of its other end
    const place = clearly.find(({ spot, far }) => !far && clear(spot, APART)) || clearly[0] || free[0];
    if (!place) continue;
    const [x, y] = place.spot;
    taken.push([x, y, across + GAP, tall + GAP]);
    context.fillStyle = page;
    if (!part.bonds.length) context.fillRect(x - across, y - tall, 2 * across, 2 * tall);
    context.fillStyle = ink;
    context.fillText(text, x, y);
  }
}

/** A point on the way from one to another. @param {number[]} from @param {number[]} to @param {number} along */
const between = ([x, y], [right, down], along) => [x + along * (right - x), y + along * (down - y)];

/**
 * The lines of a bond: two of a double one, of an aromatic one the inner one dashed.
 * @param {CanvasRenderingContext2D} context @param {number[][]} spots @param {number[][]} all bonds
 * @param {number[]} bond @param {(ends: number[][]) => void} line
 */
function bonds(context, spots, all, bond, line) {
  const [first, second, order] = bond;
  const [[x, y], [right, down]] = [spots[first], spots[second]];
  const long = Math.hypot(right - x, down - y) || 1;
  const moved = (/** @type {number} */ by) => {
    const [across, along] = [(-(down - y) / long) * by, ((right - x) / long) * by];
    return [
      [x + across, y + along],
      [right + across, down + along],
    ];
  };
  if (order === 1.5) {
    line(moved(0));
    context.setLineDash([5, 4]);
    line(moved(APART * inward(spots, all, bond)));
    context.setLineDash([]);
    return;
  }
  const lines = Math.max(1, Math.round(order));
  for (let at = 0; at < lines; at += 1) line(moved((at - (lines - 1) / 2) * APART));
}

/**
 * From a bond to a number beside it, outside of a ring.
 * @param {number[][]} spots @param {number[][]} bonds @param {number} q @param {number} k @param {number[]} half of
 * the number's width and height @param {number} band half of the line's width
 */
function besideOf(spots, bonds, q, k, half, band) {
  const [first, second] = q < k ? [q, k] : [k, q];
  const [[x, y], [right, down]] = [spots[first], spots[second]];
  const long = Math.hypot(right - x, down - y) || 1;
  const side = -inward(spots, bonds, [first, second]) / long;
  const [across, along] = [-(down - y) * side, (right - x) * side];
  const by = Math.abs(across) * half[0] + Math.abs(along) * half[1] + Math.max(band, APART);
  return [across * by, along * by];
}

/**
 * The number of each atom that its bonds leave room for.
 * @param {Part} part @param {number[][]} spots @param {number[][]} boxes of the atoms @param {number[]} field its width
 * and height @param {number} letters pixels of one
 */
export function numbersOf(part, spots, boxes, field, letters) {
  /** @type {Numbered[]} */
  const numbers = [];
  part.nodes.forEach(({ name }, at) => {
    const text = name.replace(/^\D+/, "");
    const half = [wide(text, letters) / 2 + 1, letters / 2 + 1];
    const taken = [...boxes, ...numbers.map(({ box }) => box)];
    const spot = roomFor(at, half, { spots, pairs: part.pairs, boxes: taken, field, nearer: NEARER });
    if (spot) numbers.push({ text, box: [...spot, half[0] + GAP, half[1]] });
  });
  return numbers;
}
