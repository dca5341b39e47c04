// @ts-check
/** What stands where there is nothing to show: why, and what to do next. */

import { h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";

/** A refusal of a text with more tokens than attention is shown of. */
const TOO_MANY = /has ([\d,]+) tokens; attention is shown of at most ([\d,]+)/;

/** What went wrong, and what to do. @param {string} message of the server */
export function explained(message) {
  const [, count, most] = message.match(TOO_MANY) || [];
  if (message.includes("no attention to show")) return t("no_attention");
  return count ? t("too_many_tokens", count, most) : t("failed", message);
}

/** A line that follows what is asked for. */
export const nothing = () =>
  h(
    "p",
    { class: () => (state.problem.value ? "state failed" : "state"), hidden: () => Boolean(state.trace.value) },
    () => {
      if (state.problem.value) return explained(state.problem.value);
      if (state.meta.value && !state.meta.value.models.length) return t("no_runs");
      return state.asked() ? t("loading") : t("empty");
    },
  );
