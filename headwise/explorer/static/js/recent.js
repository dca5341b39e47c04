// @ts-check
/** The last inputs that were looked at: kept in this browser, and nowhere else. */

import { signal } from "./store.js";

/** @typedef {{ m: string, x?: string, ex?: number }} Recent a run, and a text or the number of an example */

const NAME = "headwise.inputs";
/** Inputs, and characters of a text, that are kept at most. */
const [MOST, LONGEST] = [8, 1000];

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

/** @param {string} run @param {{ text?: string, example?: number }} input */
export function remember(run, { text, example }) {
  if (text === undefined ? example === undefined : text.length > LONGEST) return;
  const latest = text === undefined ? { m: run, ex: example } : { m: run, x: text };
  const others = recent.peek().filter((input) => JSON.stringify(input) !== JSON.stringify(latest));
  store([latest, ...others].slice(0, MOST));
}

export const forgetAll = () => store([]);
