// @ts-check
/** The page that is shown as one file: what it asked for, and what it would ask for other heads, places and steps. */

import { getJson, getRaw, query } from "../api.js";
import { noted } from "../keeping.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { saved } from "./saving.js";

/** Letters of the answers in a file, and answers that are asked for beside those that were seen. */
const [MOST, BESIDE] = [24_000_000, 1500];
const HOPS = [1, 2, 3];

/** @typedef {Record<string, (string | number)[]>} Others */

/** Saves the page of now. */
export function save() {
  state.status.value = t("loading");
  whole(state.page.peek()).catch(state.failed);
}

/** @param {string} page */
async function whole(page) {
  const seen = noted();
  const [traces, films] = [tracesOf(seen.answers), await filmsOf(seen.paths)];
  const answers = /** @type {Record<string, any>} */ ({});
  let size = 0;
  for (const [name, text] of seen.answers) {
    answers[name] = { text };
    size += text.length;
  }
  const others = varied(seen.paths, traces, films).slice(0, BESIDE);
  let left = 0;
  for (const path of [...seen.paths, ...others]) {
    const answer = size < MOST ? await getRaw(path).catch(() => null) : null;
    const length = answer ? (answer.text || answer.base64 || "").length : 0;
    if (answer && size + length <= MOST) answers[path] = answer;
    else left += size + length > MOST ? 1 : 0;
    size += length;
  }
  const held = {
    page,
    address: location.hash,
    meta: state.meta.peek(),
    trace: state.trace.peek(),
    ramps: await getJson("/api/v1/ramps"),
    answers,
  };
  const shell = /** @type {{ text: string }} */ (await getRaw(`/api/v1/shell?page=${page}`));
  // in JSON `<` is nothing but a letter of a string, so no text ends the script that it stands in
  const json = JSON.stringify(held).replace(/</g, "\\u003c");
  saved(new Blob([shell.text.replace(/null(?=<\/script>)/, () => json)], { type: "text/html" }), `${page}.html`);
  if (left) state.status.value += ` · ${left} ${t("leftOut")}`;
}

/** The traces that are shown, by name. @param {Map<string, string>} answers */
function tracesOf(answers) {
  const found = new Map();
  const own = state.trace.peek();
  if (own) found.set(own.trace_id, own);
  for (const [name, text] of answers) {
    if (!name.startsWith("/api/v1/traces ")) continue;
    const trace = JSON.parse(text);
    found.set(trace.trace_id, trace);
  }
  return found;
}

/** The films that are shown, by name. @param {string[]} paths */
async function filmsOf(paths) {
  const asked = paths.filter((path) => /^\/api\/v1\/films\/[^/?]+$/.test(path));
  const told = await Promise.all(asked.map((path) => getRaw(path)));
  const films = told.map((one) => /** @type {import("../pages/film.js").Film} */ (JSON.parse(one.text || "")));
  return new Map(films.map((one) => [one.film_id, one]));
}

/**
 * What would be asked for if something else were chosen.
 * @param {string[]} paths @param {Map<string, state.Trace>} traces @param {Map<string,
 * import("../pages/film.js").Film>} films
 */
function varied(paths, traces, films) {
  const known = new Set(paths);
  /** @type {string[]} */
  const found = [];
  for (const path of paths) {
    const [place, rest] = path.split("?");
    const asked = new URLSearchParams(rest);
    const [trace, film] = [traces.get(place.split("/")[4]), films.get(place.split("/")[4])];
    const others = trace
      ? ofTrace(place, asked, trace)
      : film
        ? ofFilm(asked, film).map((one) => `${place}?${one}`)
        : [];
    for (const other of others) {
      if (!known.has(other)) found.push(other);
      known.add(other);
    }
  }
  return found;
}

/**
 * Other layers, heads, groups, queries.
 * @param {string} place @param {URLSearchParams} asked @param {state.Trace} trace
 */
function ofTrace(place, asked, trace) {
  const named = asked.get("group");
  return trace.groups.flatMap((group) => {
    const rows = place.replace(/\/mean$/, "/row");
    // the mean of the queries, and each of them
    if (rows !== place) return count(group.queries.length).map((q) => `${rows}?${query({ group: group.name, q })}`);
    /** @type {Others} */
    const others = {};
    if (asked.has("layer")) others.layer = group.layers;
    if (asked.has("head")) others.head = count(group.heads);
    if (named !== null) others.group = [group.name];
    if (asked.has("q")) others.q = count(group.queries.length);
    if (asked.has("hops")) others.hops = HOPS;
    return Object.keys(others).length ? changed(asked, others).map((one) => `${place}?${one}`) : [];
  });
}

/**
 * The other steps of what is seen first, then other heads and layers.
 * @param {URLSearchParams} asked @param {import("../pages/film.js").Film} film
 */
function ofFilm(asked, film) {
  /** @type {Others} */
  const steps = asked.has("step") ? { step: film.steps } : {};
  const others = film.layers.flatMap((one) => {
    /** @type {Others} */
    const heads = asked.has("head") ? { head: count(one.heads) } : {};
    return asked.has("layer") ? changed(asked, { layer: [one.name], ...heads, ...steps }) : [];
  });
  return [...changed(asked, steps), ...others];
}

/**
 * All that a set of questions can be where these parts are any of those values.
 * @param {URLSearchParams} asked @param {Others} others
 */
function changed(asked, others) {
  let found = [new URLSearchParams(asked)];
  for (const [name, values] of Object.entries(others)) {
    found = found.flatMap((one) =>
      values.map((value) => {
        const next = new URLSearchParams(one);
        next.set(name, String(value));
        return next;
      }),
    );
  }
  return found.map(String);
}

/** @param {number} length */
const count = (length) => Array.from({ length }, (_, at) => at);
