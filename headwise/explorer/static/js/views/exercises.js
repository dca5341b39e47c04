// @ts-check
/** Exercises of the head that is shown, checked at once; and a page of them to print, with the solutions behind it. */

import { exercises, right } from "../core/exercises.js";
import { fixed, placesOf, weight } from "../core/digits.js";
import { cut } from "../core/text.js";
import { fill, h } from "../dom.js";
import { batch, effect, signal } from "../store.js";
import * as state from "../state.js";
import { learn, sentences, t } from "../strings.js";
import { WORDS } from "../words/exercises.js";

learn(WORDS);

/** @typedef {import("../core/exercises.js").Exercise} Exercise */
/** @typedef {import("../core/steps.js").Steps} Steps */
/** Rows and columns of a printed matrix, at most. */
const [ROWS, COLUMNS] = [16, 16];

/**
 * @param {HTMLElement} place
 * @param {{ value: Steps | null }} steps
 * @param {{ open: (link: string, of?: string) => void, title: () => string }} page
 * @returns {() => void}
 */
export function mount(place, steps, { open, title }) {
  const seed = signal(0);
  const list = h("ol", { class: "exercises" });
  const more = h("button", { onclick: () => (seed.value += 1) }, () => t("more_exercises"));
  const sheet = () => steps.value && printed(steps.value, seed.value, title());
  place.append(
    h("p", { class: "note" }, () => t("exercises_note")),
    list,
    h(
      "div",
      { class: "controls" },
      more,
      h("button", { onclick: sheet }, () => t("print_sheet")),
    ),
  );
  document.adoptedStyleSheets.push(covers);
  const end = effect(() => {
    void state.language.value;
    const all = steps.value ? exercises(steps.value, seed.value) : [];
    const asked = new Set(all);
    const solved = (/** @type {Exercise} */ exercise) => asked.delete(exercise) && cover(asked);
    cover(asked);
    fill(
      list,
      all.map((exercise, at) => form(exercise, at, open, () => solved(exercise))),
    );
  });
  return () => {
    end();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== covers);
  };
}

/** What hides numbers that are asked for. */
const covers = new CSSStyleSheet();

/** Hides the answers of these questions above, while the exercises are open. @param {Set<Exercise>} asked */
function cover(asked) {
  const cells = [...asked]
    .filter(({ options }) => !options)
    .flatMap(({ link, place: { q, k, c } }) =>
      (SHOWN[link] || ["output"]).map((name) => `td[data-at="${name}.${q}.${link in SHOWN ? k : c}"]`),
    );
  const [page, any] = ["body:has(.to-do[open])", `:is(${cells})`];
  covers.replaceSync(
    cells.length
      ? `${page} .open-step ${any} { font-size: 0; pointer-events: none; }
         ${page} .open-step ${any}::after { content: "?"; font-size: 1rem; font-weight: 700; }
         ${page}:has(${any}.on) :is(.worked .result, [role=tab][aria-selected=true] .value) { visibility: hidden; }`
      : "",
  );
}

/** @param {Exercise} exercise */
const question = (exercise) => {
  const words = exercise.words.map((word) => (Array.isArray(word) ? word.join(t("between_numbers")) : word));
  return t(`ask_${exercise.kind}`, ...words);
};

/**
 * @param {Exercise} exercise @param {number} at @param {(link: string, of?: string) => void} open
 * @param {() => void} solved
 */
function form(exercise, at, open, solved) {
  const verdict = h("p", { class: "verdict", role: "status" });
  const id = `exercise-${at}`;
  const input = exercise.options
    ? h(
        "select",
        { id },
        h("option", { value: "" }, "…"),
        exercise.options.map((name, number) => h("option", { value: number }, cut(name, 24))),
      )
    : h("input", { id, type: "text", inputmode: "decimal", autocomplete: "off", size: 8 });
  const see = () => {
    solved();
    goTo(exercise, open);
  };
  const check = (/** @type {Event} */ event) => {
    event.preventDefault();
    const result = right(exercise, input.value);
    const button = h("button", { type: "button", onclick: see }, t("see_working"));
    if (result) solved();
    const words =
      result === null
        ? t("no_number")
        : result
          ? t("right", exercise.shown)
          : sentences(t("wrong"), t(`hint_${exercise.kind}`, ...exercise.hint));
    verdict.className = `verdict ${result ? "right" : "wrong"}`;
    fill(verdict, result === null ? words : [words, " ", button]);
  };
  return h(
    "li",
    {},
    h(
      "form",
      { onsubmit: check, class: "exercise" },
      h("p", {}, sentences(question(exercise), exercise.options ? "" : t("digits_note"))),
      h("label", { for: id }, t("your_answer")),
      input,
      h("button", { type: "submit" }, t("check")),
    ),
    verdict,
  );
}

/** Goes to where a number is worked. @param {Exercise} exercise @param {(link: string, of?: string) => void} open */
function goTo({ link, of, place }, open) {
  batch(() => {
    [state.query.value, state.key.value, state.column.value] = [place.q, place.k, place.c];
    open(link, of);
  });
  const step = /** @type {HTMLElement | null} */ (document.querySelector("[role=tab][aria-selected=true]"));
  if (!step) return;
  step.focus();
  step.scrollIntoView({ block: "nearest" });
}

/** Prints a worksheet and its solutions. @param {Steps} steps @param {number} seed @param {string} title */
function printed(steps, seed, title) {
  const before = document.querySelector(".worksheet");
  if (before) before.remove();
  const sheet = worksheet(steps, seed, title);
  document.body.append(sheet);
  addEventListener("afterprint", () => sheet.remove(), { once: true });
  print();
}

/**
 * The page that is printed; it is not seen on a screen.
 * @param {Steps} steps
 * @param {number} seed
 * @param {string} title
 */
export function worksheet(steps, seed, title) {
  const all = exercises(steps, seed);
  const { by } = steps;
  const blanks = all.filter(({ options }) => !options).map(({ link, place }) => ({ link, place }));
  const hidden = (/** @type {string} */ name, /** @type {number} */ q, /** @type {number} */ k) =>
    blanks.some(({ link, place }) => (SHOWN[link] || []).includes(name) && place.q === q && place.k === k);
  const names = ["query", "key", "value", "products", "scores", "scaled", "masked", "weights"];
  const tables = names.map((name) => by[name]).filter((step) => step && step.shape[1] <= COLUMNS);
  return h(
    "div",
    { class: "worksheet" },
    h("h1", {}, t("worksheet")),
    h("p", {}, title),
    h("p", {}, t("name_date")),
    h("h2", {}, t("given_rows")),
    h(
      "div",
      { class: "matrices" },
      tables.map((step) => grid(steps, step, hidden)),
    ),
    h("h2", {}, t("exercises")),
    h(
      "ol",
      {},
      all.map((exercise) =>
        h("li", {}, question(exercise), exercise.options ? options(exercise) : h("p", { class: "blank" }, "")),
      ),
    ),
    h(
      "section",
      { class: "solutions" },
      h("h1", {}, t("solutions")),
      h(
        "ol",
        {},
        all.map((exercise) => h("li", {}, exercise.shown, " — ", t(`hint_${exercise.kind}`, ...exercise.hint))),
      ),
      h(
        "div",
        { class: "matrices" },
        tables.map((step) => grid(steps, step, () => false)),
      ),
    ),
  );
}

/** The matrices in which the number of a question stands, by where it is worked. @type {Record<string, string[]>} */
const SHOWN = { score: ["products", "scores"], scale: ["scaled", "masked"], weights: ["weights"] };

/** @param {Exercise} exercise */
const options = ({ options }) =>
  h(
    "p",
    {},
    (options || []).map((name) => h("span", { class: "option" }, `☐ ${cut(name, 24)}`)),
  );

/**
 * @param {Steps} steps @param {import("../core/steps.js").Step} step
 * @param {(name: string, row: number, column: number) => boolean} hidden
 */
function grid(steps, step, hidden) {
  const { values, axes, symbol, name } = step;
  const names = (/** @type {string} */ axis, /** @type {number} */ length) => {
    const known = axis === "queries" ? steps.queries : axis === "keys" ? steps.keys : [];
    return Array.from({ length }, (_, at) => cut(known[at] ?? String(at + 1), 10));
  };
  const places = placesOf(values);
  const written = (/** @type {number} */ value) => (name === "weights" ? weight(value) : fixed(value, places));
  const [rows, columns] = [names(axes[0], step.shape[0]), names(axes[1], step.shape[1])];
  return h(
    "table",
    {},
    h("caption", {}, h("i", {}, symbol), ` ${t(`what_${name}`)}`),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("td"),
        columns.map((word) => h("th", { scope: "col" }, word)),
      ),
    ),
    h(
      "tbody",
      {},
      values.slice(0, ROWS).map((row, q) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, rows[q]),
          row.map((value, k) => (hidden(name, q, k) ? h("td", { class: "missing" }, "") : h("td", {}, written(value)))),
        ),
      ),
    ),
  );
}
