// @ts-check
/** The heads of a group that are muted, and what takes that back. */

import { read, written } from "../core/edits.js";
import { h } from "../dom.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { headName, layerNumber } from "../titles.js";
import { WORDS } from "../words/heads.js";
import { mutes, silenced } from "./seen.js";

learn(WORDS);

/** Takes the muting of a head back. @param {string} layer @param {number} head */
export function unmute(layer, head) {
  state.edits.value = written(
    read(state.edits.peek()).flatMap((edit) => {
      if (!mutes(edit, layer, head)) return edit;
      const heads = (edit.heads || []).filter((other) => other !== head);
      return heads.length ? { ...edit, heads } : [];
    }),
  );
}

/** The muted heads of a group in a sentence, and what takes them back; "" where there are none. @param {state.Group}
 * group */
export function mutedHeads(group) {
  const all = group.layers.flatMap((layer, at) =>
    Array.from({ length: group.heads }, (_, head) => ({ layer, at, head })).filter(({ head }) => silenced(layer, head)),
  );
  const name = (/** @type {typeof all[0]} */ { layer, at, head }) =>
    t("layer_head", t("layer_n", layerNumber(layer, at)), headName(head));
  const undo = () => all.forEach(({ layer, head }) => unmute(layer, head));
  return all.length
    ? h(
        "p",
        { class: "unshown" },
        t("heads_muted", all.map(name).join("; ")),
        " ",
        h("button", { class: "small", onclick: undo }, t("unedit")),
      )
    : "";
}
