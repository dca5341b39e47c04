// @ts-check
/** The words of the pages in English and Chinese: tables of `words/`, a language is a column. */

import { language } from "./state.js";
import { WORDS } from "./words/common.js";

/** @type {Record<string, string[]>} */
const known = { ...WORDS };

/** Adds the words of a page. @param {Record<string, string[]>} words */
export const learn = (words) => void Object.assign(known, words);

/** The words for a name, with values in the places {0}, {1} ... @param {string} name @param {...any} values */
export const t = (name, ...values) => phrase(name, ...values).join("");

/** @param {string} name */
export const knows = (name) => Object.hasOwn(known, name);

/** The words for one of a family of names, such as of tasks; without any, the name itself. */
export const named = (/** @type {string} */ family, /** @type {string} */ name) =>
  knows(`${family}_${name}`) ? t(`${family}_${name}`) : name;

/** Sentences that are not empty. @param {...string} all */
export const sentences = (...all) => all.filter(Boolean).join(language.value === "zh" ? "" : " ");

/** The same in parts, so that a value may be an element. @param {string} name @param {...any} values */
export function phrase(name, ...values) {
  const words = (knows(name) ? known[name] : [name, name])[language.value === "zh" ? 1 : 0];
  return words.split(/\{(\d)\}/).map((part, at) => (at % 2 ? values[Number(part)] : part));
}
