// @ts-check
/** The line at the foot: what happens, and to those who hear the page what is seen. */

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
