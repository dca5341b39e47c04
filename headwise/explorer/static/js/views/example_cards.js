// @ts-check
/** Inputs to begin with, each a link with a small picture that is traced in the background, one after another. */

import { contextOf, density } from "../core/canvas.js";
import { getJson, getNumbers, post, query } from "../api.js";
import { colour, entries } from "../core/color.js";
import { folded, joined, parts, perPiece, splits } from "../core/folding.js";
import { cut, percent, together } from "../core/text.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { learn, named, phrase, sentences, t } from "../strings.js";
import { headTitle } from "../titles.js";
import { classOf, said } from "./answer.js";
import { followDark } from "./follow_dark.js";
import { called } from "./naming.js";
import { swatch } from "./swatch.js";
import { WORDS } from "../words/cards.js";

learn(WORDS);

/** Pixels of a picture; rows of a map that is drawn, tokens of one that is read; letters of a token, of an answer. */
const [SIDE, MOST, READ, LETTERS, LONGEST] = [150, 64, 256, 14, 60];
/** Inputs whose pictures need all of a card's width. */
const WIDE = new Set(["molecule", "series"]);
/** Pages that show any input that they can show, besides those of one kind. */
const EACH = new Set(["translate", "compare"]);
/** A word that stands three times in a row. */
const REPEATED = /(^|\s)(\S+)\s+\2\s+\2(?=\s|$)/;

/**
 * @param {string} page
 * @param {{ m: string, x?: string, ex?: number, g?: string, l?: number, h?: number, q?: number, k?: number }} selection
 */
export function address(page, selection) {
  const values = Object.entries(selection).filter(([, value]) => value !== undefined);
  if (state.language.value) values.push(["lang", state.language.value]);
  return `#/${page}?${new URLSearchParams(values.map(([name, value]) => [name, String(value)]))}`;
}

/**
 * The address of another input on the page that is shown, with all else that is chosen.
 * @param {{ text?: string, example?: number }} input
 */
const here = ({ text = "", example = -1 }) => state.address(undefined, state.OF_INPUT, { x: text, ex: example });

/** @param {{ text?: string, example?: number }} input */
const source = ({ text, example }) => (text === undefined ? { example } : { text });

/** What is right stands below the answer. @param {{ input: string }} run @param {any} example */
const nameOf = ({ input }, { title, example }) =>
  example === undefined ? title : called(input, { title, label: "" }, example);

/** A molecule in letters, which breaks before an atom with its bond and brackets. @param {string} text */
const atoms = (text) =>
  (text.match(/[-=#(/\\]*(?:\[[^\]]*\]|Cl|Br|.)[\d%)]*/g) || []).flatMap((atom) => [atom, h("wbr")]);

/**
 * @param {HTMLElement} place
 * @param {{ model: string, task: string, input: string, stages: any[], examples: any[] }} run
 * @returns {() => void} ends what is still being traced
 */
export function mount(place, run) {
  // a model without attention has no picture
  if (!run.stages.length) return () => {};
  const leaving = new AbortController();
  const stays = EACH.has(state.page.peek()) && !state.lacks(state.page.peek());
  const cards = run.examples.map((example) => {
    const where = { m: run.model, x: example.text, ex: example.example };
    const picture = h("div", { class: "picture" });
    const [answer, truth] = [h("p", { class: "answer" }), h("p", { class: "side", hidden: true })];
    const story = h("p", { class: "story" });
    const page = { image: "vision", node: "graph", molecule: "graph" }[run.input] || "attend";
    const molecule = run.input === "molecule";
    const title = run.input === "series" ? "" : ended(nameOf(run, example));
    const name = h("bdi", { class: molecule ? "smiles" : null }, molecule ? atoms(title) : title);
    const link = h(
      "a",
      {
        class: WIDE.has(run.input) ? "example stacked" : "example",
        href: stays ? () => here(example) : address(page, where),
      },
      picture,
      h("p", { class: "side" }, name),
      answer,
      truth,
      story,
    );
    place.append(link);
    const writesOn = run.task === "language-model";
    /** @param {any} cell */
    const opens = (cell) => stays || (link.href = address(page, { ...where, ...cell }));
    return { example, name, opens, page, link, picture, answer, truth, story, writesOn };
  });
  follow(cards, run, leaving.signal);
  return () => leaving.abort();
}

/** @param {any[]} cards @param {any} run @param {AbortSignal} signal */
async function follow(cards, run, signal) {
  cards.forEach(({ story }) => (story.textContent = t("loading")));
  const series = run.input === "series" ? await import("./series.js") : null;
  if (series) cards.forEach(({ name, example }) => (name.textContent = series.listed(example.title)));
  const near = run.input === "text" ? await import("./near_even.js") : null;
  const bar = near ? near.bar(run) : Infinity;
  for (const [number, card] of cards.entries()) {
    try {
      const body = { model: run.model, ...source(card.example), options: { edits: [] } };
      const trace = await post("/api/v1/traces", body, signal);
      if (signal.aborted) return;
      if (series) await ofSeries(card, series.worded(trace), series, number);
      else {
        const share = near ? await near.evenness(trace) : 0;
        await drawn(card, trace, share >= bar);
        const causal = trace.groups.every((/** @type {state.Group} */ group) => group.causal);
        Object.assign(card, { share, causal, output: trace.output });
      }
    } catch (error) {
      if (signal.aborted) return;
      card.story.textContent = /** @type {Error} */ (error).message;
    }
  }
  const traced = cards.filter(({ share }) => share !== undefined);
  if (near && !signal.aborted) remark(traced, run, bar);
}

/**
 * What is said once of all cards: that heads are near even, that continuations repeat themselves.
 * @param {any[]} cards @param {any} run @param {number} bar
 */
function remark(cards, run, bar) {
  const shares = cards.map(({ share }) => share);
  const repeats = run.task === "language-model" && cards.some(({ output }) => REPEATED.test(output));
  // what cards say means nothing where most are near even: a short input of such a model may be less so
  const even = shares.filter((share) => share >= bar).length * 2 > shares.length;
  if (even)
    cards.forEach(({ answer, story, pale }) => {
      [answer, story].forEach((node) => fill(node));
      pale?.();
    });
  const causal = cards.every((card) => card.causal);
  const meant = !even && cards.some(({ story }) => story.querySelector(".side")) ? t("if_even_note") : "";
  const [seen, more] = [t(causal ? "all_before" : "all_others"), causal ? t("first_rows") : ""];
  const words = even
    ? t("all_near_even", together(percent(Math.min(...shares), 1)), seen, more)
    : sentences(repeats ? t("repeats") : "", meant);
  if (words) cards[0].link.parentElement.before(h("p", { class: "note" }, words));
}

/**
 * A series with the weights of one step behind its lines; each card shows another head.
 * @param {any} card @param {state.Trace} trace @param {typeof import("./series.js")} series @param {number} number
 */
async function ofSeries(card, trace, series, number) {
  fill(card.answer, ...answered(trace));
  const came = series.truth(trace);
  card.truth.hidden = !came;
  card.truth.textContent = t("truth", came);
  const group = state.groupOf(trace.groups, "");
  const layer = state.layerWithin(group, -1);
  const head = number % group.heads;
  const path = { layer: group.layers[layer], head };
  const weights = await getNumbers(`/api/v1/traces/${trace.trace_id}/matrix?${query(path)}`);
  const pair = series.strongest(group, weights.data);
  card.opens({ g: group.name, l: layer, h: head, q: pair.query, k: pair.key });
  fill(card.story, ...series.story(group, { ...pair, head }));
  series.sketch(card.picture, trace, group, Array.from(pair.row), pair.query);
}

/** @param {any} card @param {state.Trace} trace @param {boolean} mute its weights say nothing */
async function drawn(card, trace, mute) {
  const at = `/api/v1/traces/${trace.trace_id}`;
  const group = state.groupOf(trace.groups, "");
  const layer = state.layerWithin(group, -1);
  checked(card, trace);
  if (card.page !== "attend" || trace.places?.kind === "sound") {
    fill(card.answer, ...answered(trace, card.writesOn));
    const pictures = await import("./card_pictures.js");
    const [image, graph, sound] = [pictures.image, pictures.graph, pictures.sound];
    const draw = { vision: image, graph }[/** @type {string} */ (card.page)] || sound;
    const drawing = await draw(card.picture, trace, group, layer);
    fill(card.story, ...(drawing ? drawing.story : []));
    if (drawing) card.opens(drawing.where);
    if (drawing?.colours) coloured(card, trace, drawing.colours);
    return undefined;
  }
  const path = { layer: group.layers[layer] };
  const spelled = trace.axes[group.name];
  // words in place of their letters or pieces
  const merged = splits(spelled.queries) || splits(spelled.keys);
  /** @type {Record<string, string>} */
  const fold = merged ? { merged: "true" } : {};
  const pair = await getJson(`${at}/salient?${query({ ...path, ...fold })}`);
  const cell = { l: layer, h: pair.head, q: pair.query, k: pair.key };
  card.opens({ ...cell, ...(merged ? { w: "1" } : {}) });
  fill(card.story, ...(mute ? [t("card_near_even")] : story(group, spelled, pair, merged)));
  const rest = mute ? undefined : behind(group.queries, spelled.queries, pair.query);
  fill(card.answer, ...answered(trace, card.writesOn, rest));
  const title = headTitle(group, layer, pair.head);
  const show = (/** @type {ArrayLike<number>} */ weights, /** @type {number[]} */ shape) => {
    // where nothing stands out, no cell is to look as if it did
    const draw = (/** @type {number} */ least) => map(card.picture, weights, shape, title, least);
    draw(mute ? 1 : 0);
    card.pale = () => mute || draw(1);
  };
  const tall = (/** @type {"queries" | "keys"} */ side) =>
    group[side].length > READ || parts(group[side].length, spelled[side], { merged, special: "" }).length > MOST;
  if (tall("queries") || tall("keys")) {
    const which = { group: group.name, first: layer, count: 1, size: MOST };
    const small = await getNumbers(`${at}/thumbs?${query(which)}`);
    const [, , rows, columns] = small.shape;
    return show(small.data.subarray(pair.head * rows * columns, (pair.head + 1) * rows * columns), [rows, columns]);
  }
  const weights = await getNumbers(`${at}/matrix?${query({ ...path, head: pair.head })}`);
  const exact = { weights: Float32Array.from(weights.data), queries: group.queries, keys: group.keys };
  const shown = folded(exact, spelled, { merged, special: "" });
  return show(perPiece(shown), [shown.queries.length, shown.keys.length]);
}

/**
 * Which word takes how much from which.
 * @param {state.Group} group @param {{ queries: state.Axis, keys: state.Axis }} spelled
 * @param {{ query: number, key: number, weight: number, even?: number }} pair
 * @param {boolean} merged words in place of their pieces, of which a long one always has more
 */
function story(group, spelled, { query, key, weight, even }, merged) {
  const word = (/** @type {"queries" | "keys"} */ side, /** @type {number} */ token) => {
    const labels = group[side];
    const tokens = parts(labels.length, spelled[side], { merged, special: "" }).find((all) => all.includes(token));
    return h("bdi", {}, signed(`“${cut(joined(labels, tokens || [token]).trim(), LETTERS)}”`));
  };
  const share = together(percent(weight, 1));
  const told = phrase("story", word("queries", query), share, word("keys", key));
  return even === undefined
    ? told
    : [...told, " ", h("span", { class: "side" }, t("if_even", together(percent(even, 1))))];
}

/** What stands behind the word of a token. @param {string[]} labels @param {state.Axis} axis @param {number} token */
function behind(labels, axis, token) {
  const last = parts(labels.length, axis, { merged: true, special: "" })
    .find((all) => all.includes(token))
    ?.at(-1);
  const rest = labels.flatMap((_, at) => (at > (last ?? token) && !axis.special?.includes(at) ? [at] : []));
  return rest.length ? joined(labels, rest).trimEnd() : "";
}

/**
 * What a model answers; bytes that are no letters say nothing one by one.
 * @param {state.Trace} trace @param {boolean} [writesOn] it goes on from the input
 * @param {string} [rest] what may be left out: a token that is named is in sight
 */
function answered({ output, places }, writesOn, rest = output) {
  const answer = ended(said(output.trim()).replace(/\ufffd+/g, "\ufffd"));
  const most = answer.endsWith(rest) ? Math.max(LONGEST, answer.length - rest.length) : LONGEST;
  const whole = answer.length > most ? `${answer.slice(0, most)}…` : answer;
  // a number stays behind its name
  if (places?.kind === "series") return [signed(whole).replace(/ (?=[−\d])/g, "\u00a0")];
  if (/^−?[\d.]+$/.test(whole)) return [h("span", { class: "side" }, `${t("predicted")} `), whole];
  if (places?.kind === "sound") return [h("span", { class: "side" }, `${t("heard")} `), whole];
  if (!whole.includes("\ufffd")) return writesOn ? [h("span", { class: "side on" }, t("goes_on", whole))] : [whole];
  const readable = whole.split("\ufffd").filter(Boolean);
  return [h("span", { class: "side" }, [...readable, `[${t("no_character").replaceAll(" ", "\u00a0")}]`].join(" "))];
}

/** A sign at the end stays with its word. @param {string} text */
const ended = (text) => text.replace(/ (?=[.?!]$)/, "\u00a0");

/** With true minus signs. @param {string} text */
const signed = (text) => text.replace(/(^|[\s“])-(?=\d)/g, "$1−");

/**
 * The colours of classes, as dots before their names.
 * @param {any} card @param {state.Trace} trace @param {Record<string, string>} colours
 */
function coloured({ answer, truth, example }, { output }, colours) {
  const name = classOf(output.trim())?.name;
  if (name && colours[name]) answer.prepend(swatch(colours[name]), " ");
  if (name !== example.label && colours[example.label]) truth.append(" ", swatch(colours[example.label]));
}

/** Whether the data has the same answer, or which. @param {any} card @param {state.Trace} trace */
function checked({ example, truth }, { output, places }) {
  if (!example.label) return;
  const found = classOf(output.trim());
  truth.hidden = false;
  if ((found ? found.name : output.trim()) === example.label) truth.textContent = `✓ ${t("as_in_data")}`;
  else truth.textContent = `${found ? "✗ " : ""}${t("truth", signed(ended(example.label)))}`;
  // the number of a molecule as its data calls it
  if (places?.quantity) truth.append(` · ${named("quantity", places.quantity)}`);
}

/**
 * A map with cells apart. @param {HTMLElement} place @param {ArrayLike<number>} weights @param {number[]} shape
 * @param {string} title @param {number} least weight that may be darkest
 */
function map(place, weights, [rows, columns], title, least) {
  const dots = density();
  const cell = Math.max(1, Math.floor((SIDE * dots) / Math.max(rows, columns)));
  const canvas = h("canvas", { width: cell * columns, height: cell * rows, role: "img", "aria-label": title });
  canvas.style.width = `${(cell * columns) / dots}px`;
  const top = Array.from(weights).reduce((most, weight) => Math.max(most, weight), least);
  const shades = entries(weights, top, "sqrt");
  const context = contextOf(canvas);
  const gap = cell >= 5 * dots ? dots : 0;
  place.replaceChildren(canvas);
  followDark(() => {
    const name = state.dark.value ? "ink dark" : "ink light";
    shades.forEach((shade, at) => {
      context.fillStyle = colour(name, Math.max(0, shade));
      context.fillRect((at % columns) * cell, Math.floor(at / columns) * cell, cell - gap, cell - gap);
    });
  }, canvas);
}
