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
 * @param {import("../core/search.js").Likely | undefined} written which is shown below, where it was none of them
 * @param {(token: number) => void} force
 */
export function show(place, tokens, written, force) {
  const chosen = written ? written.token : -1;
  if (written && tokens.length && !tokens.some(({ token }) => token === chosen)) tokens = [...tokens, written];
  const names = tokens.map(({ text }) => shown(text));
  const listed = tokens.filter(({ token, logp }, at) => at < FEWEST || token === chosen || Math.exp(logp) >= LEAST);
  const rows = listed.map(({ token, text, logp }) => {
    const share = Math.exp(logp);
    const bar = h("span", { class: "bar" });
    bar.style.width = `${100 * share}%`;
    const fixed = token === chosen || token < SPECIALS;
    // bytes that are no letters look alike
    const name = names.filter((other) => other === shown(text)).length > 1 ? `${shown(text)} #${token}` : shown(text);
    const told = `${name} ${number(share)}`;
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
        h("span", { class: "name" }, name),
        h("span", { class: "track" }, bar),
        h("span", { class: "share" }, percent(share, 1)),
      ),
    );
  });
  fill(place, h("ol", { class: "bars" }, rows));
}
