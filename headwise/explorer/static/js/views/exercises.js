// @ts-check
/** Exercises of the head that is shown, checked at once; and a page of them to print, with the solutions behind it. */

import { exercises, right } from "../core/exercises.js";
import { fixed, placesOf, weight } from "../core/digits.js";
import { cut } from "../core/text.js";
import { fill, h } from "../dom.js";
import { batch, effect, signal } from "../store.js";
import * as state from "../state.js";
import { learn, sentences, t } from "../strings.js";
import { covering, open, steps } from "./tracing.js";
import { tableOf } from "./table.js";
import { WORDS } from "../words/exercises.js";

learn(WORDS);

/** @typedef {import("../core/exercises.js").Exercise} Exercise */
/** @typedef {import("../core/steps.js").Steps} Steps */
/** Rows and columns of a printed matrix, at most. */
const [ROWS, COLUMNS] = [16, 16];

/**
 * @param {HTMLElement} place
 * @param {{ value: boolean }} opened whether the questions are in sight
 * @param {() => string} title
 */
export function mount(place, opened, title) {
  const seed = signal(0);
  const asked = signal(/** @type {Exercise[]} */ ([]));
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
  const solved = (/** @type {Exercise} */ exercise) =>
    (asked.value = asked.peek().filter((other) => other !== exercise));
  const ends = [
    effect(() => {
      void state.language.value;
      const all = steps.value ? exercises(steps.value, seed.value) : [];
      asked.value = all;
      fill(
        list,
        all.map((exercise, at) => form(exercise, at, () => solved(exercise))),
      );
    }),
    effect(() => {
      const cells = coveredCells(opened.value ? asked.value : [], steps.peek());
      covering.value = (all) => covered(all, cells);
    }),
  ];
  return () => {
    ends.forEach((end) => end());
    covering.value = (all) => all;
  };
}

/** The matrices in which the number of a question stands, by where it is worked. @type {Record<string, string[]>} */
const SHOWN = {
  score: ["products", "scores"],
  scale: ["scaled", "masked"],
  weights: ["weights"],
  out: ["output", "joined"],
};

/**
 * The cells whose numbers are asked for, as "matrix.row.column"; beside others a head has its own columns.
 * @param {Exercise[]} all @param {Steps | null} steps
 */
function coveredCells(all, steps) {
  const first = steps?.by.joined?.working?.numbers.first ?? 0;
  const column = (/** @type {string} */ name, /** @type {Exercise} */ { link, place: { k, c } }) =>
    link === "out" ? c + (name === "joined" ? first : 0) : k;
  return new Set(
    all
      .filter(({ options }) => !options)
      .flatMap((one) => SHOWN[one.link].map((name) => `${name}.${one.place.q}.${column(name, one)}`)),
  );
}

/** Steps with NaN in some cells. @param {Steps} all @param {Set<string>} cells @returns {Steps} */
function covered(all, cells) {
  const steps = all.steps.map((step) => ({
    ...step,
    values: step.values.map((row, q) => row.map((value, k) => (cells.has(`${step.name}.${q}.${k}`) ? NaN : value))),
  }));
  return { ...all, steps, by: Object.fromEntries(steps.map((step) => [step.name, step])) };
}

/** @param {Exercise} exercise */
const question = (exercise) => {
  const words = exercise.words.map((word) => (Array.isArray(word) ? word.join(t("between_numbers")) : word));
  return t(`ask_${exercise.kind}`, ...words);
};

/** @param {Exercise} exercise @param {number} at @param {() => void} solved */
function form(exercise, at, solved) {
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
    goTo(exercise);
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

/** Goes to where a number is worked. @param {Exercise} exercise */
function goTo({ link, of, place }) {
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
 * @param {Steps} steps @param {number} seed @param {string} title
 */
export function worksheet(steps, seed, title) {
  const all = exercises(steps, seed);
  const { by } = steps;
  const blanks = coveredCells(all, steps);
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
      tables.map((step) => grid(steps, step, blanks)),
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
        tables.map((step) => grid(steps, step, new Set())),
      ),
    ),
  );
}

/** @param {Exercise} exercise */
const options = ({ options }) =>
  h(
    "p",
    {},
    (options || []).map((name) => h("span", { class: "option" }, `☐ ${cut(name, 24)}`)),
  );

/** @param {Steps} steps @param {import("../core/steps.js").Step} step @param {Set<string>} blanks */
function grid(steps, step, blanks) {
  const { values, axes, symbol, name } = step;
  const names = (/** @type {string} */ axis, /** @type {number} */ length) => {
    const known = axis === "queries" ? steps.queries : axis === "keys" ? steps.keys : [];
    return Array.from({ length }, (_, at) => cut(known[at] ?? String(at + 1), 10));
  };
  const places = placesOf(values);
  const written = (/** @type {number} */ value) => (name === "weights" ? weight(value) : fixed(value, places));
  const [rows, columns] = [names(axes[0], step.shape[0]), names(axes[1], step.shape[1])];
  const table = tableOf(
    {},
    [h("td"), ...columns],
    values
      .slice(0, ROWS)
      .map((row, q) => [
        h("th", { scope: "row" }, rows[q]),
        ...row.map((value, k) => (blanks.has(`${name}.${q}.${k}`) ? h("td", { class: "missing" }) : written(value))),
      ]),
  );
  table.prepend(h("caption", {}, h("i", {}, symbol), ` ${t(`what_${name}`)}`));
  return table;
}
