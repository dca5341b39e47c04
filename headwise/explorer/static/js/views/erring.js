// @ts-check
/** That a model errs, with the way to an example that it gets right, if there is one among the first. */

import { getJson, query } from "../api.js";
import { h } from "../dom.js";
import { inside } from "../inside.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { WORDS } from "../words/erring.js";

learn(WORDS);

/** @param {HTMLElement} line @param {boolean} errs a caption of other words may be no error */
export function mount(line, errs) {
  line.textContent = errs ? t("errs") : "";
  const run = state.model.peek() || state.meta.peek()?.models[0]?.name;
  if (inside() || !run) return () => {};
  let alive = true;
  getJson(`/api/v1/examples?${query({ model: run })}`).then(
    ({ opens, right }) => {
      const go = () => state.give({ example: opens });
      if (alive && right && opens !== state.example.peek())
        line.append(" ", h("button", { class: "small link", onclick: go }, t("one_right")));
    },
    () => {},
  );
  return () => {
    alive = false;
  };
}
