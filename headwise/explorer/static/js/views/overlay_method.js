// @ts-check
/** What counts by a method of attribution, over an image: a number for each place, with what the method is. */

import { minus } from "../core/digits.js";
import { number, percent } from "../core/text.js";
import { fill, h, strong } from "../dom.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { learn, phrase, t } from "../strings.js";
import { headTitle, layerTitle } from "../titles.js";
import { WORDS } from "../words/attribution.js";
import { facts } from "./method_facts.js";
import { described, numbersOf } from "./methods.js";
import * as overlay from "./overlay.js";
import { fact, measures, shares } from "./shares.js";

learn(WORDS);

/** @typedef {import("../pages/vision.js").Seen} Seen */
/** @typedef {import("./methods.js").Map} Map */

/**
 * @param {HTMLElement} place @param {HTMLElement} read @param {Seen} seen
 * @param {number} head of the layer; -1: all together
 */
export function mount(place, read, seen, head) {
  const { trace, group } = seen;
  const by = state.by.peek();
  const leaving = new AbortController();
  let end = () => {};
  /** @param {Error} error */
  const failed = (error) => {
    if (leaving.signal.aborted) return;
    fill(place, h("p", { class: "note" }, error.message));
    document.documentElement.dataset.ready = `vision/${group.name}/${by}/refused`;
  };
  read.hidden = true;
  fill(place, h("p", { role: "status" }, t("by_working", t(`by_${by}`))));
  described(trace, by, leaving.signal)
    .then(async (method) => {
      const map = mapOf(method.maps, seen);
      if (!map) throw new Error(t("by_no_places", t(`by_${by}`)));
      const numbers = await numbersOf(trace, by, map, map.heads > 1 ? head : -1);
      if (leaving.signal.aborted) return;
      read.hidden = false;
      end = drawn(place, read, seen, method, map, head, row(numbers.data, map, seen.q));
    })
    .catch(failed);
  return () => {
    leaving.abort();
    read.hidden = false;
    end();
  };
}

/** Places of the image behind class tokens, of which a map may have none. @param {Seen} seen @param {Map} map */
const before = ({ axis }, map) => map.keys.length - axis.grid[0] * axis.grid[1];

/**
 * The map of the layer that is looked at, else one whose columns are the places of the image.
 * @param {Map[]} maps @param {Seen} seen
 */
function mapOf(maps, seen) {
  const placed = maps.filter((map) => [0, seen.axis.before].includes(before(seen, map)));
  return placed.find(({ name }) => name === state.place(seen.group).layer) || placed[0];
}

/**
 * Of several rows that of the query, else their mean.
 * @param {ArrayLike<number>} data @param {Map} map @param {number} q
 */
function row(data, { queries, keys }, q) {
  const [rows, columns] = [queries.length, keys.length];
  if (rows === 1 || q >= rows) return Float32Array.from(data).subarray(0, columns);
  if (q >= 0) return Float32Array.from(data).subarray(q * columns, (q + 1) * columns);
  const mean = new Float32Array(columns);
  Array.prototype.forEach.call(data, (value, place) => (mean[place % columns] += value / rows));
  return mean;
}

/**
 * @param {HTMLElement} place @param {HTMLElement} read @param {Seen} seen
 * @param {import("./methods.js").Described} method @param {Map} map @param {number} head @param {Float32Array} values
 */
function drawn(place, read, seen, method, map, head, values) {
  const { group, q } = seen;
  const { at, layer } = state.place(group);
  const axis = { ...seen.axis, before: before(seen, map) };
  const ofLayer = map.name === layer;
  const whose = head < 0 || map.heads < 2 ? layerTitle(layer, at, group.kind) : headTitle(group, at, head);
  const quantity = t(`quantity_${method.by}`, map.quantity);
  const [only] = map.queries;
  const output =
    map.queries.length > 1 ? map.queries[q] || t("mean_of_outputs") : only === "class" ? t("the_class") : only;
  const what = {
    weights: values,
    axis,
    heading: ofLayer ? t("by_map", t(`by_${method.by}`), whose) : t(`by_${method.by}`),
    path: map.name,
    places: false,
    words: map.queries.length > 1 ? map.queries : [],
    q,
    signed: map.signed,
    quantity,
    ready: `vision/${group.name}/${method.by}/${at}/${ofLayer ? head : ""}/${q}`,
  };
  fill(place);
  const ends = [overlay.mount(place, seen, what), said(read, seen, what, map, output)];
  place.append(facts(method));
  return () => ends.forEach((one) => one());
}

/**
 * The places that count most, in a sentence and as bars.
 * @param {HTMLElement} read @param {Seen} seen @param {overlay.What} what @param {Map} map @param {string} output
 */
function said(read, seen, what, map, output) {
  const row = Array.from(what.weights);
  const order = row.map((_, k) => k).sort((one, two) => Math.abs(row[two]) - Math.abs(row[one]));
  const told = (/** @type {number} */ value) => (map.signed ? minus(number(value)) : percent(value, 1));
  return effect(() => {
    const at = overlay.readAt(seen, what);
    const k = at < 0 ? order[0] : at;
    const sum = row.reduce((all, value) => all + value, 0);
    fill(
      read,
      h(
        "p",
        { class: "say" },
        phrase("say_place", strong(output), strong(overlay.named(k, what.axis)), strong(told(row[k]))),
      ),
      h("h2", {}, t("by_part")),
      shares((place) => overlay.short(place, what.axis), row, order, k, { full: Math.abs(row[order[0]]) || 1, told }),
      h("dl", { class: "facts" }, map.signed ? fact("by_sum", minus(number(sum))) : measures(row)),
      h("p", { class: "note" }, what.quantity),
    );
  });
}
