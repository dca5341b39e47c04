// @ts-check
/** The most likely next tokens as bars; a click forces one. */

import { fill, h } from "../dom.js";
import { number, percent, shown } from "../core/text.js";
import { t } from "../strings.js";

/** Numbers below stand for padding, begin, end and unknown, which nothing written holds. */
const SPECIALS = 4;
/** So many are shown at least, and further ones down to this share. */
const [FEWEST, LEAST] = [5, 0.001];

/**
 * @param {HTMLElement} place @param {import("../core/search.js").Likely[]} tokens
 * @param {number} chosen the token that was written
 * @param {(token: number) => void} force
 */
export function show(place, tokens, chosen, force) {
  const listed = tokens.filter(({ token, logp }, at) => at < FEWEST || token === chosen || Math.exp(logp) >= LEAST);
  const rows = listed.map(({ token, text, logp }) => {
    const share = Math.exp(logp);
    const bar = h("span", { class: "bar" });
    bar.style.width = `${100 * share}%`;
    const fixed = token === chosen || token < SPECIALS;
    const told = `${shown(text)} ${number(share)}`;
    return h(
      "li",
      {},
      h(
        "button",
        {
          class: token === chosen ? "likely chosen" : "likely",
          disabled: fixed,
          "aria-current": token === chosen ? "true" : null,
          "aria-label": fixed ? told : `${told}: ${t("forceToken")}`,
          title: fixed ? told : `${told}: ${t("forceToken")}`,
          "data-token": token,
          onclick: () => force(token),
        },
        h("span", { class: "name" }, shown(text)),
        h("span", { class: "track" }, bar),
        h("span", { class: "share" }, percent(share, 1)),
      ),
    );
  });
  fill(place, h("ol", { class: "bars" }, rows));
}
