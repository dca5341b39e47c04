// @ts-check
/** The film of a training: where one head looked in a probe, step after step, and what every head of its layer did. */

import { getJson, getNow, getNumbers, query } from "../api.js";
import { fill, h } from "../dom.js";
import { inside } from "../inside.js";
import { effect, signal } from "../store.js";
import * as state from "../state.js";
import { learn, t } from "../strings.js";
import { headName, layerTitle } from "../titles.js";
import { stepsOf, toTrace } from "../views/checkpoints.js";
import { again } from "../views/again.js";
import * as curves from "../views/film_curves.js";
import * as heads from "../views/film_heads.js";
import * as settled from "../views/film_settled.js";
import * as heat from "../views/heat.js";
import { later } from "../views/later.js";
import { WORDS } from "../words/film.js";

learn(WORDS);

const PAUSE_MS = 250;

/** @typedef {{ head: number, why: string, other: number }} Flag */
/**
 * @typedef {{ film_id: string, model: string, steps: number[], statistics: string[], probes: {
 * source: string, target: string | null, output: string }[], layers: { name: string, heads: number, opens?: number }[],
 * flags: Record<string, Flag[]> }} Film
 * `opens`: the probe at which a film opens that opens at this layer
 */

const film = signal(/** @type {Film | null} */ (null));
const playing = signal(false);
/** The steps of which the run keeps a checkpoint. */
const kept = signal(/** @type {number[]} */ ([]));

/** What is chosen, within what the film has. @param {Film} found */
function place(found) {
  const within = (/** @type {number} */ value, /** @type {number} */ count) => Math.min(Math.max(0, value), count - 1);
  const at = state.frame.value < 0 ? found.steps.length - 1 : nearest(found.steps, state.frame.value);
  const number = within(state.layer.value < 0 ? opening(found) : state.layer.value, found.layers.length);
  const layer = found.layers[number];
  const probe = within(state.probe.value < 0 ? telling(found) : state.probe.value, found.probes.length);
  return {
    at,
    step: found.steps[at],
    probe,
    number,
    layer: layer.name,
    heads: layer.heads,
    head: within(state.head.value, layer.heads),
  };
}

/** The layer that a film opens at: the last that reads another sequence, else the first. @param {Film} found */
const opening = ({ layers }) =>
  Math.max(
    0,
    layers.findLastIndex(({ name }) => name.includes("cross")),
  );

/** The probe that a film opens at, whatever layer is chosen then. @param {Film} found */
const telling = (found) => found.layers[opening(found)].opens || 0;

/** The place of the last of these steps that is not beyond one. @param {number[]} steps @param {number} step */
const nearest = (steps, step) =>
  Math.max(
    0,
    steps.findLastIndex((one) => one <= step),
  );

/** @param {HTMLElement} place */
export function mount(place) {
  playing.value = false;
  const bar = h("div", { class: "tabs" });
  const player = h("div", { class: "player" });
  const [small, large] = [h("div", { "aria-label": () => t("heads"), role: "group" }), h("div")];
  const way = h("p", {});
  const charts = h("section", { class: "panel" });
  const says = h("section", { class: "settled", "aria-label": () => t("settled") });
  const none = h("div", {});
  const all = h(
    "div",
    { hidden: () => !film.value },
    bar,
    player,
    says,
    h("div", { class: "panels filmed" }, h("section", { class: "panel wide" }, small, large, way), charts),
  );
  place.append(
    h("h1", {}, () => t("film")),
    none,
    all,
    h("p", { class: "note", hidden: () => !film.value }, () => t("filmNote")),
  );
  const ends = [
    followed(none),
    effect(() => choices(bar)),
    controls(player),
    frames(small, large),
    drawnCurves(charts, says),
    effect(() => fill(way, traced())),
  ];
  document.addEventListener("keydown", pressed, true);
  return () => {
    document.removeEventListener("keydown", pressed, true);
    playing.value = false;
    ends.forEach((end) => end());
  };
}

/** Asks for the film of the model that is chosen. @param {HTMLElement} none */
function followed(none) {
  return effect(() => {
    const meta = state.meta.value;
    const name = state.model.value || (meta && meta.models.length ? meta.models[0].name : "");
    let [alive, end] = [true, () => {}];
    film.value = null;
    const seek = async () => {
      // a film may have gone on since it was asked for
      const { models } = await getNow("/api/v1/films");
      const there = models.includes(name);
      const next = there ? await getNow(`/api/v1/films/${encodeURIComponent(name)}`) : null;
      const steps = there && !inside() ? await stepsOf(name).catch(() => []) : [];
      if (!alive) return;
      film.value = next;
      kept.value = steps;
      if (!there) end = later(() => import("../views/no_film.js"), none, name, models);
    };
    if (name) seek().catch((error) => alive && state.failed(error));
    return () => {
      alive = false;
      end();
    };
  });
}

/** @param {HTMLElement} bar */
function choices(bar) {
  const found = film.value;
  if (!found) return;
  const now = place(found);
  const probes = h("select", { "aria-label": t("probe"), onchange: () => (state.probe.value = Number(probes.value)) });
  fill(
    probes,
    found.probes.map((one, at) =>
      h("option", { value: at }, one.source.length > 60 ? `${one.source.slice(0, 59)}…` : one.source),
    ),
  );
  probes.value = String(now.probe);
  const layers = h("select", { "aria-label": t("layer"), onchange: () => (state.layer.value = Number(layers.value)) });
  const mark = (/** @type {string} */ name) => (found.flags[name] ? " ⚑" : "");
  fill(
    layers,
    found.layers.map((one, at) => h("option", { value: at }, `${layerTitle(one.name, at)}${mark(one.name)}`)),
  );
  layers.value = String(found.layers.findIndex((one) => one.name === now.layer));
  fill(bar, h("label", {}, `${t("probe")} `, probes), h("label", {}, `${t("layer")} `, layers));
}

/** Play, and a slider from the first step to the last. @param {HTMLElement} player */
function controls(player) {
  const play = h(
    "button",
    { class: "play main", onclick: () => toggled(), "aria-pressed": () => String(playing.value) },
    () => t(playing.value ? "pause" : "play"),
  );
  const slider = h("input", {
    type: "range",
    min: 0,
    step: 1,
    "aria-label": () => t("step"),
    oninput: () => go(Number(slider.value)),
  });
  const told = h("output", {});
  fill(player, play, slider, told);
  return effect(() => {
    const found = film.value;
    if (!found) return;
    const { at, step } = place(found);
    slider.max = String(found.steps.length - 1);
    slider.value = String(at);
    slider.setAttribute("aria-valuetext", t("step_n", step));
    told.textContent = t("step_of", step, found.steps[found.steps.length - 1]);
  });
}

/** @param {number} at */
function go(at) {
  const found = film.peek();
  if (!found) return;
  const last = found.steps.length - 1;
  const within = Math.max(0, Math.min(last, at));
  state.frame.value = within === last ? -1 : found.steps[within];
}

function toggled() {
  const found = film.peek();
  if (!found) return;
  if (!playing.peek() && place(found).at === found.steps.length - 1) go(0);
  playing.value = !playing.peek();
}

/** The heads of the layer, and the chosen one. @param {HTMLElement} small @param {HTMLElement} large */
function frames(small, large) {
  let turn = 0;
  let timer = 0;
  let end = () => {};
  const stop = effect(() => {
    const found = film.value;
    const [dark, going] = [state.dark.value, playing.value];
    clearTimeout(timer);
    turn += 1;
    const mine = turn;
    if (!found) return;
    const now = place(found);
    const at = { step: now.step, probe: now.probe, layer: now.layer };
    const path = `/api/v1/films/${found.film_id}`;
    const asked = [
      getJson(`${path}/axes?${query(at)}`),
      getNumbers(`${path}/matrix?${query({ ...at, head: now.head })}`),
      getNumbers(`${path}/thumbs?${query({ ...at, size: 32 })}`),
    ];
    Promise.all(asked).then(([axes, matrix, thumbs]) => {
      if (mine !== turn) return;
      end();
      heads.show(small, thumbs, found.flags[now.layer] || [], dark);
      end = shown(large, now, axes, matrix);
      document.documentElement.dataset.ready = `film/${now.step}/${now.probe}/${now.layer}/${now.head}`;
      if (going) timer = window.setTimeout(() => advanced(found, now.at), PAUSE_MS);
    }, state.failed);
  });
  return () => {
    stop();
    turn += 1;
    clearTimeout(timer);
    end();
  };
}

/** The next frame, until the last. @param {Film} found @param {number} at */
function advanced(found, at) {
  if (at + 1 >= found.steps.length - 1) playing.value = false;
  go(at + 1);
}

/**
 * @param {HTMLElement} large @param {ReturnType<typeof place>} now @param {any} axes
 * @param {import("../core/npy.js").Numbers} matrix
 */
function shown(large, now, axes, matrix) {
  const group = { name: now.layer, layers: [now.layer], heads: now.heads, ...axes };
  const head = t("layer_head", layerTitle(now.layer, now.number), headName(now.head));
  const title = t("film_frame", head, t("step_n", now.step));
  large.parentElement?.style.setProperty("--keys", String(group.keys.length));
  fill(
    large,
    h("h2", { title: now.layer }, title),
    h("p", { class: "side" }, `${t(film.peek()?.probes[now.probe].target ? "fed" : "answer")}: ${axes.output}`),
  );
  return heat.mount(large, { weights: /** @type {Float32Array} */ (matrix.data), group, title, fitsScreen: true });
}

/** The way to the numbers of the chosen head, at the nearest checkpoint. */
function traced() {
  const [found, steps] = [film.value, kept.value];
  if (!found || inside()) return "";
  if (!steps.length)
    return [t("trace_none"), " ", h("code", {}, again(found.model, "film.every=50 training.keep_last=20"))];
  const now = place(found);
  const { near, href } = toTrace(steps, now.step, found.probes[now.probe], found.layers, now.layer, now.head);
  return h("a", { href }, t("trace_at", near));
}

/** @param {HTMLElement} charts @param {HTMLElement} says when the alignment appears */
function drawnCurves(charts, says) {
  let turn = 0;
  let end = () => {};
  const stop = effect(() => {
    const found = film.value;
    void state.language.value;
    if (!found) return;
    const { layer } = place(found);
    turn += 1;
    const mine = turn;
    const path = `/api/v1/films/${found.film_id}`;
    const asked = ["curves", "agreement"].map((name) => getNumbers(`${path}/${name}?${query({ layer })}`));
    Promise.all(asked).then(([numbers, agreement]) => {
      if (mine !== turn) return;
      const shown = { found, layer, place: () => place(found), go };
      end();
      end = settled.mount(says, { ...shown, agreement });
      const statistics = [...found.statistics, "settled"];
      curves.mount(charts, { ...shown, found: { ...found, statistics }, numbers: beside(numbers, agreement) });
    }, state.failed);
  });
  return () => {
    turn += 1;
    stop();
    end();
  };
}

/**
 * Statistics of heads with one more: (steps, statistics, heads).
 * @param {import("../core/npy.js").Numbers} numbers @param {import("../core/npy.js").Numbers} more (steps, heads)
 */
function beside({ data, shape: [steps, statistics, heads] }, more) {
  const all = new Float32Array(steps * (statistics + 1) * heads);
  for (let step = 0; step < steps; step += 1) {
    const at = step * (statistics + 1) * heads;
    all.set(data.subarray(step * statistics * heads, (step + 1) * statistics * heads), at);
    all.set(more.data.subarray(step * heads, (step + 1) * heads), at + statistics * heads);
  }
  return { data: all, shape: [steps, statistics + 1, heads] };
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  const found = film.peek();
  if (!found || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || event.ctrlKey || event.metaKey || event.altKey)
    return;
  const now = place(found);
  const wrap = (/** @type {number} */ value, /** @type {number} */ count) => (value + count) % count;
  const at = found.layers.findIndex((one) => one.name === now.layer);
  /** @type {Record<string, () => void>} */
  const moves = {
    ArrowLeft: () => go(now.at - (event.shiftKey ? 10 : 1)),
    ArrowRight: () => go(now.at + (event.shiftKey ? 10 : 1)),
    Home: () => go(0),
    End: () => go(found.steps.length - 1),
    "[": () => (state.layer.value = wrap(at - 1, found.layers.length)),
    "]": () => (state.layer.value = wrap(at + 1, found.layers.length)),
    ",": () => (state.head.value = wrap(now.head - 1, now.heads)),
    ".": () => (state.head.value = wrap(now.head + 1, now.heads)),
  };
  if (target.tagName !== "BUTTON") moves[" "] = toggled;
  if (!moves[event.key]) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  moves[event.key]();
}
