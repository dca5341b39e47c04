// @ts-check
/** A field for a token that is forced: what is typed is looked for in the vocabulary of the run. */

import { getJson, query } from "../api.js";
import { shown } from "../core/text.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { effect } from "../store.js";
import { t } from "../strings.js";

const MOST = 8;

/** @typedef {{ exact: number[], count: number, tokens: { token: number, text: string }[] }} Found */

/**
 * @param {{ value: import("../core/search.js").Beam[], peek: () => import("../core/search.js").Beam[] }} path
 * @param {(token: number) => void} force
 */
export function field(path, force) {
  let turn = 0;
  const input = h("input", {
    id: "forced",
    type: "text",
    maxlength: 100,
    autocomplete: "off",
    spellcheck: false,
    disabled: () => !path.value.length,
  });
  const offered = h("div", { class: "tokens", role: "group", "aria-label": () => t("suggestions") });
  const told = h("p", { class: "note", role: "status" });
  const chosen = (/** @type {number} */ token) => {
    input.value = "";
    cleared();
    force(token);
  };
  const cleared = () => {
    turn += 1;
    fill(offered);
    told.textContent = "";
  };
  const look = (/** @type {boolean} */ given) => {
    cleared();
    const [typed, mine] = [input.value, turn];
    if (!typed) return;
    asked(typed).then(
      (found) => {
        if (mine !== turn) return;
        if (given && found.exact.length) return chosen(found.exact[0]);
        fill(
          offered,
          found.tokens.map(({ token, text }) => offer(token, text, () => chosen(token))),
        );
        if (given || !found.count) told.textContent = absent(typed, found);
      },
      (error) => {
        if (mine === turn) told.textContent = error.message;
      },
    );
  };
  input.addEventListener("input", () => look(false));
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    look(true);
  };
  const form = h(
    "form",
    { class: "forcing", onsubmit: send },
    h("label", { for: "forced" }, () => t("forceAny")),
    input,
    h("button", { type: "submit", disabled: () => !path.value.length }, () => t("forceIt")),
  );
  // another run has other tokens
  const end = effect(() => {
    void [state.model.value, state.language.value];
    cleared();
  });
  return { node: h("div", {}, form, offered, told), end };
}

/** @param {string} begins @returns {Promise<Found>} */
function asked(begins) {
  const meta = state.meta.peek();
  const model = state.model.peek() || (meta && meta.models.length ? meta.models[0].name : "");
  return getJson(`/api/v1/tokens?${query({ model, begins, most: MOST })}`);
}

/** @param {number} token @param {string} text @param {() => void} work */
const offer = (token, text, work) =>
  h(
    "button",
    { class: "token", type: "button", title: `${t("forceToken")} (${token})`, "data-token": token, onclick: work },
    shown(text),
  );

/** @param {string} typed @param {Found} found */
function absent(typed, found) {
  const more = found.count ? `${found.count.toLocaleString("en")} ${t("beginSo")}` : t("noneBegins");
  return `“${typed}” ${t("noToken")} ${more}`;
}
