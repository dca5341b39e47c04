// @ts-check
/** An output is asked for whenever what is chosen changes, and known as far as it is told. */

import { postLines } from "../api.js";
import { begun, best, pathTo, take } from "../core/search.js";
import { layout } from "../core/tree.js";
import { forget } from "../keeping.js";
import * as state from "../state.js";
import { batch, effect } from "../store.js";
import { t } from "../strings.js";
import { still } from "./player.js";

/** What is told while it is written is drawn at most so often. */
const REDRAW_MS = 150;
const LIKELY = 10;

/** @typedef {import("../core/search.js").Search} Search */
/** What is known of it so far, its best hypothesis, and where its beams stand. @param {Search} it */
export const drawn = (it) => ({ it, best: best(it), tree: layout(it.beams.values(), best(it)) });

/**
 * The layer and the head that are looked at: until either is chosen those on which Attend opens; -1 is the mean.
 * @param {Search} it
 */
export function looking({ start, end }) {
  const [layer, head] = [state.ofLayer.value, state.ofHead.value];
  if (layer < -1 && head < -1 && end?.opens && start.kept === "heads") return end.opens;
  return [Math.max(-1, layer), Math.max(-1, head)];
}

/** Chooses both, so that what is not meant stays. @param {number[]} to */
export const lookAt = ([layer, head]) =>
  batch(() => {
    state.ofLayer.value = layer;
    state.ofHead.value = head;
  });

/**
 * The hypothesis that is shown: the best, or the best one through the chosen beam.
 * @param {ReturnType<typeof drawn>} search
 */
export function through({ it, best, tree }) {
  const chosen = it.beams.has(state.node.value) ? state.node.value : best;
  const found = pathTo(it, chosen);
  for (let id = tree.heirs.get(chosen); chosen && id !== undefined; id = tree.heirs.get(id))
    found.push(/** @type {import("../core/search.js").Beam} */ (it.beams.get(id)));
  return found;
}

/**
 * A path as far as the row that the sentence speaks of: the locked one, else the last.
 * @param {import("../core/search.js").Beam[]} path
 */
export const upTo = (path) => path.slice(0, (path[state.query.value] ? state.query.value : path.length - 1) + 1);

/** No cell is locked: the sentence is that of the step. */
export const released = () =>
  batch(() => {
    state.query.value = -1;
    state.key.value = -1;
  });

/** @typedef {{ value: ReturnType<typeof drawn>, peek: () => ReturnType<typeof drawn> }} Shown */
/** @typedef {{ value: AbortController | null, peek: () => AbortController | null }} Open */

/**
 * Asks whenever what is asked for changes; what is told is drawn as it comes.
 * @param {Shown} search @param {{ value: number }} count @param {Open} open @param {ReturnType<typeof
 * import("./player.js").player>} self
 */
export function asking(search, count, open, self) {
  let [before, about, stuck, alive] = ["", "", "", true];
  let end = () => {};
  const begin = () => {
    end();
    end = () => {};
    search.value = drawn(begun());
    count.value = 0;
    if (before) end = told(JSON.parse(before), search, count, open);
  };
  const shown = (/** @type {boolean} */ first, /** @type {number} */ from) => {
    if (first && (state.step.peek() >= 0 || state.query.peek() >= 0)) return;
    if (still()) self.rest();
    else self.play(from);
  };
  const follow = effect(() => {
    const [next, forced] = [wanted(), state.forced.value];
    // outside of the effect, which is not to follow what is read there
    queueMicrotask(() => {
      if (!alive || next.body === before) return;
      const other = Boolean(before) && next.about !== about;
      // tokens that were forced on another text mean nothing here
      if (other && forced) return void (state.forced.value = "");
      const first = !before;
      // a token that is forced, or no longer, stays in sight
      const stays = before && !other && forced !== stuck;
      if (before) state.node.value = -1;
      [before, about, stuck] = [next.body, next.about, forced];
      begin();
      // once it is asked for, so that it is waited for
      if (!stays) shown(first, other ? 0 : forced.split(",").length - 1);
      else if (forced) self.go(forced.split(",").length - 1);
    });
  });
  return {
    again: () => {
      begin();
      shown(false, 0);
    },
    end: () => {
      alive = false;
      follow();
      end();
    },
  };
}

/** The request for what is chosen, empty without an input; and what it is about. */
function wanted() {
  const [given, meta, forced] = [state.asked(), state.meta.value, state.forced.value];
  const [beams, most] = [state.beams.value, state.most.value];
  const model = state.model.value || (meta && meta.models.length ? meta.models[0].name : null);
  const body = {
    model,
    ...given,
    top_k: LIKELY,
    force: forced ? forced.split(",").map(Number) : [],
    ...(beams > 0 ? { beam: beams } : {}),
    ...(most > 0 ? { max_new: most } : {}),
  };
  return {
    body: given && meta && !state.lacks("translate") ? JSON.stringify(body) : "",
    about: JSON.stringify([model, given]),
  };
}

/**
 * @param {any} body @param {Shown} search @param {{ value: number }} count @param {Open} open
 * @returns {() => void} ends it
 */
function told(body, search, count, open) {
  const [stopped, found] = [new AbortController(), begun()];
  let [timer, failed] = [0, ""];
  const draw = () => {
    clearTimeout(timer);
    timer = 0;
    search.value = drawn(found);
    count.value = found.steps.length;
  };
  const over = (/** @type {string} */ message) => {
    if (open.peek() !== stopped) return;
    draw();
    open.value = null;
    state.status.value = message;
    document.documentElement.dataset.ready = `written/${found.steps.length}/${found.end ? "end" : "cut"}`;
  };
  open.value = stopped;
  // one output is kept, not those before it
  forget();
  state.status.value = t("loading");
  delete document.documentElement.dataset.ready;
  const line = (/** @type {any} */ one) => {
    if (one.error) failed = one.error;
    take(found, one);
    if (found.steps.length === 1) draw();
    else if (!timer) timer = window.setTimeout(draw, REDRAW_MS);
  };
  postLines("/api/v1/generate", body, stopped.signal, line).then(
    async () => {
      const notes = found.start?.warnings || [];
      over(
        failed || (!found.end ? t("broken") : notes.length ? (await import("../words/refusals.js")).noted(notes) : ""),
      );
    },
    (error) => over(stopped.signal.aborted ? t("stopped") : error.status ? error.message : t("broken")),
  );
  return () => {
    if (open.peek() === stopped) open.value = null;
    stopped.abort();
    clearTimeout(timer);
  };
}
