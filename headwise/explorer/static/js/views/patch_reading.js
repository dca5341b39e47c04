// @ts-check
/** Where the chosen query of an image looks, in a sentence and as bars; the key is the one under the pointer. */

import { coloured } from "../core/overlay.js";
import { percent } from "../core/text.js";
import { fill, h, strong } from "../dom.js";
import { effect } from "../store.js";
import { learn, phrase, sentences, t } from "../strings.js";
import { WORDS } from "../words/reading.js";
import { named, pointed, readAt, short } from "./overlay.js";
import { fact, measures, shares } from "./shares.js";

learn(WORDS);

/** A weight that is written as less than 0.1 %; pixels of a narrow screen. */
const [SMALL, NARROW] = [0.001, 760];

/**
 * @param {HTMLElement} place @param {import("../pages/vision.js").Seen} seen @param {import("./overlay.js").What} what
 * @param {boolean} mean of the heads
 */
export function mount(place, seen, what, mean) {
  const { axis } = seen;
  const row = Array.from(what.weights);
  const order = row.map((_, k) => k).sort((one, two) => row[two] - row[one]);
  // what stands before the patches is no place in the picture
  const strongest = order.find((k) => k >= axis.before) ?? order[0];
  const before = row.slice(0, axis.before).reduce((sum, weight) => sum + weight, 0);
  const from = what.places && what.q >= 0 ? named(what.q, axis) : what.words[what.q] || "";
  const template =
    what.q < 0 ? "say_mean" : !what.places ? "say_word" : what.q < axis.before ? "say_class" : "say_patch";
  const listed = order.filter((at) => row[at] >= SMALL || at === order[0]);
  // a line of the list frames its patch
  place.onpointerover = (event) => {
    const line = /** @type {HTMLElement} */ (event.target).closest(".shares > div");
    pointed.value = line ? listed[[...place.querySelectorAll(".shares > div")].indexOf(line)] : -1;
  };
  // a finger leaves when it is lifted: what it chose stays
  place.onpointerleave = ({ pointerType }) => pointerType === "mouse" && (pointed.value = -1);
  const original = coloured(seen.image) ? asItIs(seen.image) : null;
  const end = effect(() => {
    const at = readAt(seen, what);
    const k = at < 0 ? strongest : at;
    const sentence = [
      strong(from),
      strong(percent(row[k], 1)),
      strong(named(k, axis)),
      t(mean ? "mean_head" : "one_head"),
    ];
    const say = h("p", { class: "say" }, phrase(template, ...sentence));
    fill(
      place,
      // on a narrow screen there is room for it beside the sentence
      ...(innerWidth > NARROW ? [say, original] : [original, say]),
      h("h2", {}, t("by_weight")),
      shares((at) => short(at, axis), row, listed, k, { full: row[order[0]] || 1 }),
      h(
        "dl",
        { class: "facts" },
        measures(row),
        axis.before ? [fact("the_class", percent(before, 1)), fact("on_image", percent(1 - before, 1))].flat() : [],
      ),
      h("p", { class: "note" }, t("facts_note")),
      h("p", { class: "note" }, sentences(t("note"), template === "say_word" ? t("not_the_thing") : "")),
    );
  });
  return () => {
    end();
    // the place is that of other readings too
    place.onpointerover = place.onpointerleave = null;
  };
}

/** The picture with its colours, small beside what is read of it. @param {HTMLCanvasElement} image */
function asItIs(image) {
  const copy = h("canvas", { width: image.width, height: image.height });
  copy.getContext("2d").drawImage(image, 0, 0);
  return h(
    "figure",
    { class: "original" },
    copy,
    h("figcaption", { class: "side" }, () => t("original")),
  );
}
