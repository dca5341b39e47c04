// @ts-check
/** What is served and what can be seen of it: examples of the run, its card, the pages, the last inputs. */

import { getJson, query } from "../api.js";
import { fill, h } from "../dom.js";
import { forgetAll, recent } from "../recent.js";
import { effect } from "../store.js";
import * as state from "../state.js";
import { knows, learn, phrase, t } from "../strings.js";
import * as examples from "../views/example_cards.js";
import { later } from "../views/later.js";
import { toolbar } from "../views/toolbar.js";
import { WORDS } from "../words/home.js";
import * as reads from "../words/reads.js";
import * as tasks from "../words/tasks.js";

learn(WORDS);
learn(reads.WORDS);
learn(tasks.WORDS);

/** The command that makes a run which a page can show. @type {Record<string, string>} */
const COMMANDS = {
  any: "headwise demo translate",
  translate: "headwise demo translate",
  vision: "headwise demo image-classify",
  graph: "headwise demo graph-regress",
  film: "headwise train RECIPE film.every=50",
};

/** Inputs that can be typed; others are chosen. */
const TYPED = new Set(["text", "node", "molecule"]);
const PAGES = ["attend", "trace", "translate", "vision", "graph", "positions", "compare", "film"];

/** @param {HTMLElement} place */
export function mount(place) {
  return effect(() => {
    const meta = state.meta.value;
    void state.language.value;
    if (!meta) return undefined;
    if (!meta.models.length) {
      let alive = true;
      import("../views/without_run.js").then((view) => alive && view.mount(place, pages()));
      return () => {
        alive = false;
      };
    }
    return withRun(place, meta);
  });
}

/** @param {HTMLElement} place @param {any} meta */
function withRun(place, meta) {
  const served = meta.models.find((/** @type {any} */ one) => one.name === state.model.value) || meta.models[0];
  const focused = Boolean(place.querySelector(".runs")?.contains(document.activeElement));
  const reading = h("p", { class: "note reading" }, t(`read_${served.input}`));
  const [cards, card, looks] = [
    h("div", { class: "examples" }),
    h("section", { class: "panel card-of-run" }),
    h("div"),
  ];
  fill(
    place,
    h("h1", {}, t(`welcome_${served.input}`)),
    h("p", { class: "intro" }, t(TYPED.has(served.input) ? "lead" : "lead_pick")),
    choice(meta.models, served.name, focused),
    reading,
    cards,
    h(
      "div",
      { class: "home" },
      h("div", { class: "stack" }, card, lastInputs()),
      h("div", { class: "stack" }, pages(served.input), reports()),
    ),
    looks,
  );
  let end = () => {};
  let alive = true;
  const failed = (/** @type {Error} */ error) => {
    if (alive) fill(card, h("p", { class: "failed" }, error.message));
  };
  const path = `/api/v1/cards?${query({ model: served.name })}`;
  card.textContent = t("loading");
  // the data of a run may take longer to read than its card
  Promise.all([getJson(`${path}&inputs=false`), import("../views/run_card.js")])
    .then(([run, view]) => {
      if (!alive) return undefined;
      view.mount(card, run);
      return getJson(path).then((whole) => {
        if (!alive) return;
        const ends = [examples.mount(cards, whole)];
        // without examples there is no picture to be read
        const bare = !whole.examples.length && served.input === "image";
        if (!cards.children.length) fill(reading, ...(bare ? ownPicture() : []));
        if (bare) ends.push(later(() => import("../views/samples.js"), cards));
        end = () => ends.forEach((one) => one());
        // the sentences wait until the examples are asked for
        if (served.input === "text")
          import("../views/pronouns.js").then((pronouns) => alive && ends.push(pronouns.mount(looks, whole)));
        document.documentElement.dataset.ready = `home/${served.name}`;
      });
    }, failed)
    .catch(failed);
  return () => {
    alive = false;
    end();
  };
}

/** Where a run without examples is given a picture. */
const ownPicture = () => phrase("own_input", h("a", { href: state.address("vision") }, t("vision")));

/**
 * Which run is shown, where there are several. @param {any[]} models @param {string} now
 * @param {boolean} focused it was chosen with the focus on this list
 */
function choice(models, now, focused) {
  if (models.length < 2) return null;
  const row = toolbar(
    () => t("models"),
    "tabs runs",
    models.map(({ name }) =>
      h(
        "button",
        {
          class: name === now ? "tab choose chosen" : "tab choose",
          "aria-pressed": String(name === now),
          onclick: () => state.pick(name),
        },
        name,
      ),
    ),
  );
  // once it is in the page, what is chosen is in sight, and has the focus that the row before it had
  requestAnimationFrame(() => {
    const chosen = /** @type {HTMLElement} */ (row.querySelector(".chosen"));
    if (focused) chosen.focus();
    row.scrollLeft = chosen.offsetLeft - row.offsetLeft - (row.clientWidth - chosen.offsetWidth) / 2;
  });
  return row;
}

/** A line for each page: what one sees there, of a run that reads this. @param {string} [input] none without a run */
function pages(input) {
  const needs = (/** @type {string} */ name) =>
    phrase("needs_in", t(`needs_${state.lacks(name)}`), h("code", {}, COMMANDS[state.lacks(name)]));
  return h(
    "section",
    { class: "panel", "aria-label": t("pages") },
    h("h2", {}, t("pages")),
    h(
      "ul",
      { class: "lines" },
      PAGES.map((name) =>
        h(
          "li",
          {},
          h("a", { href: state.address(name) }, t(name)),
          h(
            "span",
            {},
            t(name === "attend" && knows(`see_${input}`) ? `see_${input}` : `see_${name}`),
            state.lacks(name)
              ? h("span", { class: "side" }, state.language.value === "zh" ? "" : " ", needs(name))
              : null,
          ),
        ),
      ),
    ),
  );
}

/** A line for each report that Compare shows. */
function reports() {
  const section = h("section", { class: "panel", "aria-label": t("reports"), hidden: true });
  getJson("/api/v1/reports").then(({ reports: found }) => {
    section.hidden = !found.length;
    const line = (/** @type {{ name: string, command: string }} */ { name, command }) =>
      h(
        "li",
        {},
        h("a", { href: state.address("compare") }, h("bdi", {}, name)),
        h("span", { class: "side" }, command),
      );
    fill(section, h("h2", {}, t("reports")), h("ul", { class: "lines" }, found.map(line)));
  }, state.failed);
  return section;
}

/** What was looked at before, in this browser. */
function lastInputs() {
  const list = h("div");
  const section = h("section", { class: "panel", "aria-label": t("last_inputs") }, h("h2", {}, t("last_inputs")), list);
  const served = new Set(state.meta.value.models.map((/** @type {any} */ one) => one.name));
  effect(() => {
    const inputs = recent.value.filter(({ m }) => served.has(m));
    const one = (/** @type {import("../recent.js").Recent} */ input) =>
      h(
        "li",
        {},
        h(
          "a",
          { href: examples.address("attend", input) },
          h("bdi", {}, input.x ?? input.n ?? t("example_n", input.ex)),
        ),
        served.size > 1 ? h("span", { class: "side" }, ` ${input.m}`) : null,
      );
    fill(
      list,
      inputs.length
        ? [
            h("ul", { class: "last" }, inputs.map(one)),
            h("button", { class: "small", onclick: forgetAll }, t("forget")),
          ]
        : h("p", { class: "note" }, t("none_yet")),
    );
  });
  return section;
}
