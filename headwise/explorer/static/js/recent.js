// @ts-check
/** The last inputs that were looked at: kept in this browser, and nowhere else. */

import { signal } from "./store.js";

/** @typedef {{ m: string, x?: string, ex?: number, n?: string }} Recent a run, a text or an example, and its name */

const NAME = "headwise.inputs";
/** Inputs, and characters of a text and of a name, that are kept at most. */
const [MOST, LONGEST, NAMED] = [8, 1000, 80];

/** The latest first. */
export const recent = signal(stored());

/** @returns {Recent[]} */
function stored() {
  try {
    const inputs = JSON.parse(localStorage.getItem(NAME) || "[]");
    return Array.isArray(inputs) ? inputs.filter((input) => input && typeof input.m === "string") : [];
  } catch {
    return [];
  }
}

/** @param {Recent[]} inputs */
function store(inputs) {
  recent.value = inputs;
  try {
    localStorage.setItem(NAME, JSON.stringify(inputs));
  } catch {
    // a page without a place to remember forgets them
  }
}

/**
 * @param {string} run @param {{ text?: string, example?: number }} input
 * @param {{ source: string, output: string, label?: string }} trace by which an example is named
 */
export function remember(run, { text, example }, { source, output, label }) {
  if (text === undefined ? example === undefined : text.length > LONGEST) return;
  // the name of a file says less than what is in it
  const name = /\.[a-z]{2,4}\b|\[\d+\]$/i.test(source) ? label || output : source;
  const latest = text === undefined ? { m: run, ex: example, n: name.slice(0, NAMED) } : { m: run, x: text };
  const others = recent.peek().filter(({ m, x, ex }) => m !== run || x !== text || ex !== example);
  store([latest, ...others].slice(0, MOST));
}

export const forgetAll = () => store([]);
