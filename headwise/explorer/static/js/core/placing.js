// @ts-check
/** Where the nodes of a drawing stand, in pixels. */

/** @typedef {{ x: number, y: number }} Spot of the unit square */
/** @typedef {{ spots: number[][], height: number, bond: number }} Placed */

/** An atom of an aromatic ring has a small letter. @param {{ name: string }} atom */
export const isAromatic = ({ name }) => /^[a-z]/.test(name);

/** Pixels from a node to the end of the field; of a bond, at most, and that a bond has where it can. */
const [EDGE, LONGEST, ROOMY] = [34, 180, 60];
/** Pixels of a field from which on its end has more room. */
const BROAD = 600;
/** A field in which a molecule stands upright may be so many times as high. */
const UPRIGHT = 1.3;
/** Directions round a node. */
const ROUND = Array.from({ length: 16 }, (_, at) => [Math.cos((at * Math.PI) / 8), Math.sin((at * Math.PI) / 8)]);
/** How much further away than it must a name may stand; what each such part costs it. */
const [FURTHER, COSTS] = [[1, 1.3, 1.7, 2.3], 0.4];
/** Pixels between a node and its name. */
const GAP = 2;
/** Rounds in which nodes are pushed off each other; pixels that are left between them and at the end of the field. */
const [ROUNDS, BETWEEN] = [200, 4];
/** Halves of a name that keep it off a line. */
const OFF = 1.45;

/**
 * @param {Spot[]} nodes @param {number} width @param {number} height @param {{ edge?: number }} [how]
 * pixels from a node to the end of the field
 * @returns {Placed}
 */
export const stretched = (nodes, width, height, { edge = EDGE } = {}) => ({
  spots: nodes.map(({ x, y }) => [edge + x * (width - 2 * edge), edge + y * (height - 2 * edge)]),
  height,
  bond: 0,
});

/**
 * Nodes of one size pushed off each other, within a field.
 * @param {number[][]} spots @param {number} size @param {number[]} field
 */
export function apart(spots, size, field) {
  const moved = spots.map((spot) => [...spot]);
  const [far, edge] = [size + BETWEEN, size / 2 + BETWEEN];
  /** Whether two lay on each other. @param {number[]} one @param {number[]} other */
  const push = (one, other) => {
    const [x, y] = [other[0] - one[0], other[1] - one[1]];
    const long = Math.hypot(x, y);
    if (long >= far - 0.5) return false;
    const by = [long ? x / long : 1, long ? y / long : 0].map((part) => (part * (far - long)) / 2);
    for (const axis of [0, 1]) {
      const inside = (/** @type {number} */ at) => Math.max(edge, Math.min(field[axis] - edge, at));
      one[axis] = inside(one[axis] - by[axis]);
      other[axis] = inside(other[axis] + by[axis]);
    }
    return true;
  };
  for (let round = 0; round < ROUNDS; round += 1) {
    const close = moved.flatMap((one, at) => moved.slice(at + 1).filter((other) => push(one, other)));
    if (!close.length) break;
  }
  return moved;
}

/**
 * A molecule with its angles: bonds of one length, a field as high as it needs; upright where it is too long.
 * @param {Spot[]} nodes @param {number[][]} bonds @param {number} width @param {number} tallest of a field
 * @param {{ edge?: number, upright?: number }} [how] `edge`: pixels from a node to the end of a field that has this
 * height whatever stands in it; `upright`: of a field in which it stands
 * @returns {Placed}
 */
export function molecule(nodes, bonds, width, tallest, { edge, upright = UPRIGHT * tallest } = {}) {
  const lengths = bonds.map(([one, two]) => Math.hypot(nodes[one].x - nodes[two].x, nodes[one].y - nodes[two].y));
  const bond = lengths.reduce((all, length) => all + length, 0) / (lengths.length || 1) || 1;
  const end = edge ?? (width > BROAD ? 1.5 : 1) * EDGE;
  const flat = fitted(nodes, bond, width, tallest, end, edge === undefined ? 4 * EDGE : tallest);
  if (flat.bond >= ROOMY || edge !== undefined) return flat;
  const turned = nodes.map(({ x, y }) => ({ x: 1 - y, y: x }));
  const standing = fitted(turned, bond, width, upright, EDGE, 4 * EDGE);
  return standing.bond > flat.bond ? standing : flat;
}

/**
 * @param {Spot[]} nodes @param {number} bond @param {number} width @param {number} tallest @param {number} edge
 * @param {number} lowest @returns {Placed}
 */
function fitted(nodes, bond, width, tallest, edge, lowest) {
  const [xs, ys] = [nodes.map(({ x }) => x), nodes.map(({ y }) => y)];
  const [across, down] = [xs, ys].map((all) => Math.max(...all) - Math.min(...all));
  const scale = Math.min(LONGEST / bond, (width - 2 * edge) / (across || 1e-9), (tallest - 2 * edge) / (down || 1e-9));
  const height = Math.max(lowest, scale * down + 2 * edge);
  const [left, top] = [(width - scale * across) / 2, (height - scale * down) / 2];
  const [x0, y0] = [Math.min(...xs), Math.min(...ys)];
  return {
    spots: nodes.map(({ x, y }) => [left + scale * (x - x0), top + scale * (y - y0)]),
    height,
    bond: scale * bond,
  };
}

/**
 * The direction, as a vector of length 1, in which a node has most room: away from the nodes beside it.
 * @param {number[]} spot @param {number[][]} beside
 */
function freeOf([x, y], beside) {
  const angles = beside.map(([right, down]) => Math.atan2(down - y, right - x)).sort((one, two) => one - two);
  if (!angles.length) return [0.7, 0.7];
  const gaps = angles.map((angle, at) => (at + 1 < angles.length ? angles[at + 1] : angles[0] + 2 * Math.PI) - angle);
  const widest = gaps.indexOf(Math.max(...gaps));
  const free = angles[widest] + gaps[widest] / 2;
  return [Math.cos(free), Math.sin(free)];
}

/**
 * Whether a text lies within a field and on no box: the middle, half of the width and of the height.
 * @param {number[]} spot its middle @param {number[]} half of its width and height @param {number[][]} boxes
 * @param {number[]} field
 */
export const isClear = (spot, half, boxes, field) =>
  [0, 1].every((axis) => Math.min(spot[axis], field[axis] - spot[axis]) >= half[axis]) &&
  boxes.every((box) => [0, 1].some((axis) => Math.abs(box[axis] - spot[axis]) >= box[2 + axis] + half[axis]));

/**
 * Where the name of a node stands: in the field, on no box, near its node, off lines if it can be; else
 * undefined.
 * @param {number} node @param {number[]} half of the name's width and height
 * @param {{ spots: number[][], pairs: number[][], boxes: number[][], field: number[], nearer: number }} drawing a box
 * of each node comes first; `pairs` have a line; `nearer`: pixels by which others are further away
 */
export function roomFor(node, half, { spots, pairs, boxes, field, nearer }) {
  const neighbours = pairs.filter(([q, k]) => q === node && k !== node).map(([, k]) => spots[k]);
  const free = freeOf(spots[node], neighbours);
  const along = (/** @type {number[]} */ way) => way[0] * free[0] + way[1] * free[1];
  const ways = [free, ...ROUND.toSorted((way, other) => along(other) - along(way))];
  const placed = (/** @type {number} */ far, /** @type {number[]} */ way) =>
    way.map((part, axis) => {
      const by = boxes[node][2] + GAP + Math.abs(way[0]) * half[0] + Math.abs(way[1]) * half[1];
      const at = spots[node][axis] + far * part * by;
      return Math.max(half[axis], Math.min(field[axis] - half[axis], at));
    });
  const away = (/** @type {number[]} */ spot, /** @type {number[]} */ from) =>
    Math.hypot(...spot.map((part, axis) => Math.max(0, Math.abs(part - from[axis]) - half[axis])));
  const scaled = (/** @type {number[]} */ spot) => spot.map((part, axis) => part / half[axis]);
  const lines = pairs.filter(([q, k]) => q !== k).map((pair) => pair.map((end) => scaled(spots[end])));
  const merit = (/** @type {number} */ far, /** @type {number[]} */ spot) => {
    const own = away(spot, spots[node]) + nearer;
    const isNearest = spots.every((other, at) => at === node || away(spot, other) >= own);
    const off = Math.min(OFF, ...lines.map(([from, to]) => distance(scaled(spot), from, to)));
    return (isNearest ? 1 : 0) + off - COSTS * (far - 1);
  };
  /** @type {{ spot?: number[], merit: number }} */
  let best = { merit: -Infinity };
  for (const far of FURTHER)
    for (const way of ways) {
      // none further away can be better
      if (best.merit >= 1 + OFF - COSTS * (far - 1)) return best.spot;
      const spot = placed(far, way);
      const worth = isClear(spot, half, boxes, field) ? merit(far, spot) : -Infinity;
      if (worth > best.merit) best = { spot, merit: worth };
    }
  return best.spot;
}

/**
 * How far a point is from a line between two others.
 * @param {number[]} point @param {number[]} from @param {number[]} to
 */
export function distance([x, y], [left, top], [right, down]) {
  const [across, along] = [right - left, down - top];
  const part = ((x - left) * across + (y - top) * along) / (across ** 2 + along ** 2 || 1);
  const at = Math.max(0, Math.min(1, part));
  return Math.hypot(x - left - at * across, y - top - at * along);
}

/**
 * Whether no bond is nearer to a text than its own.
 * @param {number[]} point its middle @param {number[][]} spots @param {number[][]} bonds @param {number[]} own its two
 * nodes @param {{ by?: number, half?: number }} [how] pixels by which others are further away; half of its width
 */
export function isOwn([x, y], spots, bonds, [q, k], { by = -0.5, half = 0 } = {}) {
  const away = (/** @type {number} */ one, /** @type {number} */ other) =>
    Math.min(...[-half, 0, half].map((right) => distance([x + right, y], spots[one], spots[other])));
  const far = away(q, k);
  const isIt = (/** @type {number[]} */ [one, two]) => (one === q && two === k) || (one === k && two === q);
  return bonds.every((bond) => isIt(bond) || away(bond[0], bond[1]) >= far + by);
}

/**
 * The side of a bond on which its ring is: 1 or -1, as its normal points.
 * @param {number[][]} spots @param {number[][]} bonds @param {number[]} bond
 */
export function inward(spots, bonds, [first, second]) {
  const [[x, y], [right, down]] = [spots[first], spots[second]];
  let side = 0;
  for (const [one, two, order] of bonds) {
    if (order !== 1.5) continue;
    for (const [here, there] of [
      [one, two],
      [two, one],
    ]) {
      if ((here !== first && here !== second) || there === first || there === second) continue;
      side += (right - x) * (spots[there][1] - y) - (down - y) * (spots[there][0] - x);
    }
  }
  return side < 0 ? -1 : 1;
}
