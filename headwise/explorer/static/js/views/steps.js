// @ts-check
/** Steps of a series in words. */

import { learn, t } from "../strings.js";
import { WORDS } from "../words/sides.js";

learn(WORDS);

/** A step in words: so many steps back or ahead of the last known one. @param {string} label */
export function named(label) {
  if (!/^[−+]?\d+$/.test(label)) return label;
  const step = Number(label.replace("−", "-"));
  if (!step) return t("step_known");
  const [one, more] = step < 0 ? ["one_step_back", "steps_back"] : ["one_step_ahead", "steps_ahead"];
  return Math.abs(step) === 1 ? t(one) : t(more, Math.abs(step));
}
