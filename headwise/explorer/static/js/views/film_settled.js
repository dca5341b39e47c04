// @ts-check
/** When the alignment of a head appears in a training: the step from which it looks where it looks at the end. */

import { fill, h } from "../dom.js";
import { effect } from "../store.js";
import { phrase, t } from "../strings.js";
import { headName } from "../titles.js";

/** The share of rows that look most at the same key as at the end; numbers come in half precision. */
const ENOUGH = 0.8 - 1e-3;

/** @typedef {import("../core/npy.js").Numbers} Numbers */

/**
 * The frame from which on a head looks where it does at the end; -1: it changes up to it.
 * @param {Numbers} agreement (steps, heads) @param {number} head
 */
export function settled({ data, shape: [steps, heads] }, head) {
  let first = steps;
  while (first > 0 && data[(first - 1) * heads + head] >= ENOUGH) first -= 1;
  // the last frame is as itself
  return first >= steps - 1 ? -1 : first;
}

/**
 * @param {HTMLElement} place
 * @param {{ found: import("../pages/film.js").Film, layer: string, agreement: Numbers, place: () => { head: number },
 * go: (at: number) => void }} shown
 */
export function mount(place, { found, layer, agreement, place: now, go }) {
  const { steps, flags } = found;
  const heads = [...Array(agreement.shape[1]).keys()];
  const odd = new Set((flags[layer] || []).map(({ head }) => head));
  const places = heads.map((head) => (odd.has(head) ? -1 : settled(agreement, head)));
  const at = (/** @type {number} */ frame) =>
    h("button", { class: "small", onclick: () => go(frame) }, t("step_n", steps[frame]));
  return effect(() => {
    const { head } = now();
    const [name, frame] = [h("b", {}, headName(head)), places[head]];
    const early = heads.filter((one) => places[one] >= 0).sort((one, two) => places[one] - places[two])[0];
    const chosen = odd.has(head)
      ? phrase("film_none", name)
      : frame < 0
        ? phrase("film_restless", name)
        : frame === 0
          ? phrase("film_from_start", name)
          : phrase("film_settled", name, at(frame), String(steps[steps.length - 1]));
    const first = early !== undefined && early !== head ? phrase("film_first", headName(early), at(places[early])) : [];
    fill(place, h("p", { class: "say" }, chosen, " ", first), h("p", { class: "note" }, t("film_how")));
  });
}
