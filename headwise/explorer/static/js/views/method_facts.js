// @ts-check
/** What a method of attribution is, where it is from, and what it does not say. */

import { formula } from "../core/formula.js";
import { h } from "../dom.js";
import { knows, learn, t } from "../strings.js";
import { WORDS } from "../words/method_facts.js";

learn(WORDS);

/** @param {import("./methods.js").Described} method */
export const facts = (method) =>
  h(
    "dl",
    { class: "facts method" },
    /** @type {const} */ (["formula", "source", "limit"]).flatMap((what) => {
      const words = `${what}_${method.by}`;
      return [h("dt", {}, t(`by_${what}`)), h("dd", {}, written(knows(words) ? t(words, method[what]) : method[what]))];
    }),
  );

/** Words in which formulas stand between dollar signs. @param {string} words */
const written = (words) => words.split("$").map((part, at) => (at % 2 ? formula(part) : part));
