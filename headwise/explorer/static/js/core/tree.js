// @ts-check
/**
 * Where the beams of a search stand: steps from left to right, the best hypothesis above, others in as few lanes as
 * fit.
 */

/** @typedef {{ id: number, parent: number, t: number, score: number, done: boolean }} Leaf */
/**
 * @typedef {{ places: Map<number, { x: number, y: number }>, heirs: Map<number, number>, lanes: number, steps: number
 * }} Layout
 */

/**
 * Each beginning stands in the column of its step. Its heir, the child that reaches the best hypothesis, else the
 * furthest, else of the best score, goes on in its lane; others in the nearest that is free along their line of heirs.
 * @param {Iterable<Leaf>} beams a parent before its children; the parent 0 is the empty beginning
 * @param {number} best the last beginning of the best hypothesis, 0 if it is not known @returns {Layout}
 */
export function layout(beams, best) {
  const all = new Map(Array.from(beams, (beam) => [beam.id, beam]));
  const children = grouped(all);
  const heirs = heirsOf(all, children, best);
  /** @type {Map<number, { x: number, y: number }>} */
  const places = new Map();
  /** What is taken of each lane: the first and the last step of every line. @type {[number, number][][]} */
  const lanes = [];
  const lines = [...(children.get(0) || [])].sort(
    (one, two) => Number(heirs.get(0) === two) - Number(heirs.get(0) === one),
  );
  let from = 0;
  while (from < lines.length) {
    // lines that begin early first, so that lanes fill from the left
    const first = lines[from];
    from += 1;
    const line = lineOf(first, heirs);
    const begin = /** @type {Leaf} */ (all.get(first));
    const end = /** @type {Leaf} */ (all.get(line[line.length - 1])).t;
    const above = places.get(begin.parent);
    const y = free(lanes, above ? above.y : 0, begin.t, end);
    for (const id of line) {
      const beam = /** @type {Leaf} */ (all.get(id));
      places.set(id, { x: beam.t, y });
      lines.push(...(children.get(id) || []).filter((child) => child !== heirs.get(id)));
    }
  }
  const steps = Math.max(0, ...Array.from(all.values(), (beam) => beam.t + 1));
  return { places, heirs, lanes: lanes.length, steps };
}

/** @param {Map<number, Leaf>} all @returns {Map<number, number[]>} */
function grouped(all) {
  const children = new Map();
  for (const beam of all.values()) children.set(beam.parent, [...(children.get(beam.parent) || []), beam.id]);
  return children;
}

/**
 * Of every beginning with children the one that goes on in its lane.
 * @param {Map<number, Leaf>} all @param {Map<number, number[]>} children @param {number} best
 * @returns {Map<number, number>}
 */
function heirsOf(all, children, best) {
  const chosen = new Set();
  for (let beam = all.get(best); beam; beam = all.get(beam.parent)) chosen.add(beam.id);
  /** How far each beginning reaches, and the best score there. @type {Map<number, [number, number]>} */
  const reached = new Map();
  const heirs = new Map();
  const order = (/** @type {number} */ one, /** @type {number} */ two) => {
    if (chosen.has(one) !== chosen.has(two)) return chosen.has(one) ? -1 : 1;
    const [far, other] = [reached.get(one) || [0, 0], reached.get(two) || [0, 0]];
    return other[0] - far[0] || other[1] - far[1] || one - two;
  };
  // children have larger numbers than their parents
  for (const id of [...all.keys(), 0].sort((one, two) => two - one)) {
    const under = [...(children.get(id) || [])].sort(order);
    if (under.length) heirs.set(id, under[0]);
    const beam = all.get(id);
    if (beam) reached.set(id, under.length ? /** @type {any} */ (reached.get(under[0])) : [beam.t, beam.score]);
  }
  return heirs;
}

/** @param {number} first @param {Map<number, number>} heirs */
function lineOf(first, heirs) {
  const line = [];
  for (let id = /** @type {number | undefined} */ (first); id !== undefined; id = heirs.get(id)) line.push(id);
  return line;
}

/**
 * Takes these steps of the nearest lane to `above` where they are free, else of a new one below.
 * @param {[number, number][][]} lanes @param {number} above @param {number} begin @param {number} end
 */
function free(lanes, above, begin, end) {
  const open = lanes.map((_, y) => y).filter((y) => lanes[y].every(([from, to]) => end < from || to < begin));
  const [y = lanes.length] = open.sort((one, two) => Math.abs(one - above) - Math.abs(two - above) || one - two);
  if (y === lanes.length) lanes.push([]);
  lanes[y].push([begin, end]);
  return y;
}
