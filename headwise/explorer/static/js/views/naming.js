// @ts-check
/** What an example is called: its text, or which picture or recording of its set it is. */

import { reads, sample } from "../state.js";
import { learn, t } from "../strings.js";
import { WORDS } from "../words/examples.js";

learn(WORDS);

/** One of a set, as `set.npz[3]`. */
const OF_A_SET = /\[\d+\]$/;

/** A class that has only a number says that it is one. @param {string} name */
export const classed = (name) => (/^\d+$/.test(name) ? t("class_n", name) : name);

/**
 * @param {string} kind what the run reads @param {{ title: string, label: string }} example
 * @param {number} number counted from 0
 */
export function called(kind, { title, label }, number) {
  const right = label.replace(/^-(?=\d)/, "−");
  const noun = { sound: "recording", image: "picture" }[kind];
  if (!noun || !OF_A_SET.test(title)) return right ? `${title} (${kind === "node" ? classed(right) : right})` : title;
  return right ? t(`${noun}_of`, number, right) : t(`${noun}_n`, number);
}

/**
 * A trace of one of a set with its name in the language of the page.
 * @param {import("../state.js").Trace} trace @param {number} [example] none: of a file that was sent
 */
export function worded(trace, example) {
  const kind = reads();
  return {
    ...trace,
    get source() {
      if (example === undefined) return sample.value ? t(`sample_${sample.value}`) : t("sent");
      return called(kind, { title: trace.source, label: "" }, example);
    },
  };
}
