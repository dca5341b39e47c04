// @ts-check
/** The line at the foot: what happens, and for those who hear the page also what is seen elsewhere. */

import { h } from "./dom.js";
import * as state from "./state.js";

export const foot = () =>
  h(
    "p",
    {
      class: () => (state.status.value === state.heard.value ? "status unseen" : "status"),
      role: "status",
      "aria-live": "polite",
    },
    () => state.status.value,
  );
