// @ts-check
/** Which group, layer and head are looked at, to be chosen where no picture of all heads is shown. */

import { h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { groupTitle, layerNumber } from "../titles.js";

/** @param {state.Trace} trace @param {state.Group} group */
export function picker(trace, group) {
  const { at, head } = state.place(group);
  const { groups } = trace;
  return h(
    "div",
    { class: "tabs" },
    select(
      t("group"),
      groups.map((one) => groupTitle(one, groups)),
      groups.indexOf(group),
      (place) => state.inGroup(groups[place].name),
    ),
    select(t("layer"), group.layers.map(layerNumber), at, (at) => state.go(group, { at })),
    select(
      t("head"),
      Array.from({ length: group.heads }, (_, place) => String(place + 1)),
      head,
      (place) => state.go(group, { head: place }),
    ),
  );
}

/** @param {string} title @param {string[]} names @param {number} now @param {(place: number) => void} pick */
function select(title, names, now, pick) {
  const node = h(
    "select",
    { onchange: () => pick(node.selectedIndex) },
    names.map((name) => h("option", {}, name)),
  );
  node.selectedIndex = now;
  return h("label", {}, `${title} `, node);
}
