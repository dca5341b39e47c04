// @ts-check
/** An output as it is written: where each token looks, the beams, what else was likely; step by step, and otherwise. */

import { postLines } from "../api.js";
import { alignment, begun, best, likelyAt, lookOf, pathTo, take } from "../core/search.js";
import { number, shown } from "../core/text.js";
import { layout } from "../core/tree.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { effect, signal } from "../store.js";
import { t } from "../strings.js";
import * as beamTree from "../views/beam_tree.js";
import * as heat from "../views/heat.js";
import * as likely from "../views/likely.js";
import { controls, player, still } from "../views/player.js";
import { tint } from "../views/text.js";
import { options } from "../views/writing_options.js";
import { keyboard } from "../views/writing_keys.js";

/** What is told while it is written is drawn at most so often. */
const REDRAW_MS = 150;
const LIKELY = 10;

/** @typedef {import("../core/search.js").Search} Search */
/** @typedef {import("../core/search.js").Beam} Beam */

/** What is known of it so far, its best hypothesis, and where its beams stand. @param {Search} it */
const drawn = (it) => ({ it, best: best(it), tree: layout(it.beams.values(), best(it)) });

/** @typedef {{ value: ReturnType<typeof drawn>, peek: () => ReturnType<typeof drawn> }} Shown */
/** @typedef {{ value: AbortController | null, peek: () => AbortController | null }} Open */
/** @typedef {{ value: Beam[], peek: () => Beam[] }} Path */

/** @param {HTMLElement} place @returns {() => void} */
export function mount(place) {
  const search = signal(drawn(begun()));
  const open = signal(/** @type {AbortController | null} */ (null));
  const count = signal(0);
  const path = signal(/** @type {Beam[]} */ ([]));
  const self = player(state.step, count, open);
  const asked = asking(search, count, open, self);
  const play = controls(self, count);
  const chosen = options(search, open, () => stop(open), asked.again);
  const panels = parts();
  fill(place, h("div", { class: "writing" }, play.node, chosen.node), panels.all);
  const ends = [
    asked.end,
    self.end,
    play.end,
    chosen.end,
    keyboard(self, count, search),
    effect(() => {
      path.value = through(search.value).slice(0, self.step() + 1);
    }),
    strips(panels, search, path, self),
    aligned(panels.alignment, search, path),
    choices(panels.likely, search, path, self),
    tree(panels.tree, search, path, self),
  ];
  return () => {
    ends.forEach((end) => end());
    stop(open);
  };
}

/** The places of the page. */
function parts() {
  const make = (/** @type {string} */ name) => h("div", { class: name });
  const found = { read: make("tokens"), written: make("tokens"), alignment: make("held"), likely: make("held"), tree: make("scrolls") };
  found.tree.tabIndex = 0;
  const panel = (/** @type {string} */ kind, /** @type {string} */ title, /** @type {HTMLElement} */ node, /** @type {string} */ note) =>
    h("section", { class: `panel ${kind}`, "aria-label": () => t(title) }, h("h2", {}, () => t(title)), node, note && h("p", { class: "note" }, () => t(note)));
  const all = [
    h("p", { class: "side" }, () => t("source")),
    found.read,
    h("p", { class: "side" }, () => t("written")),
    found.written,
    h("div", { class: "panels writes" }, panel("wide", "alignment", found.alignment, ""), panel("", "likely", found.likely, "pick"), panel("whole", "tree", found.tree, "hypotheses")),
    h("p", { class: "note" }, () => t("note")),
    h("p", { class: "note" }, () => t("writerKeys")),
  ];
  return { ...found, all };
}

/** The hypothesis that is shown: the best, or the best one through the chosen beam. @param {ReturnType<typeof drawn>} search */
function through({ it, best, tree }) {
  const chosen = it.beams.has(state.node.value) ? state.node.value : best;
  const found = pathTo(it, chosen);
  for (let id = tree.heirs.get(chosen); chosen && id !== undefined; id = tree.heirs.get(id)) found.push(/** @type {Beam} */ (it.beams.get(id)));
  return found;
}

/** Ends the work of the server. @param {Open} open */
function stop(open) {
  const now = open.peek();
  if (now) now.abort();
}

/** Forces a token after those of a path, in place of its last. @param {Beam[]} path @param {number} token */
function force(path, token) {
  state.node.value = -1;
  state.forced.value = [...path.slice(0, -1).map((beam) => beam.token), token].join(",");
}

/**
 * Asks whenever what is asked for changes; what is told is drawn as it comes.
 * @param {Shown} search @param {{ value: number }} count @param {Open} open @param {ReturnType<typeof player>} self
 */
function asking(search, count, open, self) {
  let [before, about, alive] = ["", "", true];
  let end = () => {};
  const begin = () => {
    end();
    end = () => {};
    search.value = drawn(begun());
    count.value = 0;
    if (before) end = told(JSON.parse(before), search, count, open);
  };
  const shown = (/** @type {boolean} */ first, /** @type {number} */ from) => {
    if (first && state.step.peek() >= 0) return;
    if (still()) self.rest();
    else self.play(from);
  };
  const follow = effect(() => {
    const [next, forced] = [wanted(), state.forced.value];
    // outside of the effect, which is not to follow what is read there
    queueMicrotask(() => {
      if (!alive || next.body === before) return;
      const other = Boolean(before) && next.about !== about;
      shown(!before, other ? 0 : forced.split(",").length - 1);
      if (before) state.node.value = -1;
      [before, about] = [next.body, next.about];
      // tokens that were forced on another text mean nothing here
      if (other && forced) state.forced.value = "";
      else begin();
    });
  });
  return {
    again: () => {
      shown(false, 0);
      begin();
    },
    end: () => {
      alive = false;
      follow();
      end();
    },
  };
}

/** The request for what is chosen, empty without a text; and what it is about. */
function wanted() {
  const [text, meta, forced] = [state.text.value, state.meta.value, state.forced.value];
  const [beams, most] = [state.beams.value, state.most.value];
  const model = state.model.value || (meta && meta.models.length ? meta.models[0].name : null);
  const body = {
    model,
    text,
    top_k: LIKELY,
    force: forced ? forced.split(",").map(Number) : [],
    ...(beams > 0 ? { beam: beams } : {}),
    ...(most > 0 ? { max_new: most } : {}),
  };
  return { body: text && meta ? JSON.stringify(body) : "", about: JSON.stringify([model, text]) };
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
  state.status.value = t("loading");
  delete document.documentElement.dataset.ready;
  const line = (/** @type {any} */ one) => {
    if (one.error) failed = one.error;
    take(found, one);
    if (found.steps.length === 1) draw();
    else if (!timer) timer = window.setTimeout(draw, REDRAW_MS);
  };
  postLines("/api/v1/generate", body, stopped.signal, line).then(
    () => over(failed || (found.end ? ending(found) : t("broken"))),
    (error) => over(stopped.signal.aborted ? t("stopped") : error.status ? error.message : t("broken")),
  );
  return () => {
    if (open.peek() === stopped) open.value = null;
    stopped.abort();
    clearTimeout(timer);
  };
}

/** @param {Search} search */
const ending = (search) => [`${t("answer")}: ${search.end.output}`, ...search.start.warnings].join(" · ");

/**
 * What is read, tinted by where the step looks, and what is written so far.
 * @param {{ read: HTMLElement, written: HTMLElement }} panels @param {Shown} search
 * @param {Path} path @param {ReturnType<typeof player>} self
 */
function strips(panels, search, path, self) {
  return effect(() => {
    const { it } = search.value;
    const [now, far] = [path.value, state.forced.value ? state.forced.value.split(",").length : 0];
    const beam = now[now.length - 1];
    const look = beam ? lookOf(it, beam, state.ofLayer.value, state.ofHead.value) : null;
    const read = it.own ? [...it.first, ...now.slice(0, -1).map((one) => one.text)] : it.first;
    const tokens = read.map((token) => h("span", { class: "token" }, shown(token)));
    if (look) tokens.forEach((node, k) => tinted(node, look[k]));
    fill(panels.read, tokens);
    fill(panels.written, now.map((one, at) => written(one, at, at < far, self)));
  });
}

/** @param {HTMLElement} node @param {number} weight */
function tinted(node, weight) {
  tint(node, weight);
  node.title = number(weight);
}

/** @param {Beam} beam @param {number} at @param {boolean} forced @param {ReturnType<typeof player>} self */
function written(beam, at, forced, self) {
  const told = `${shown(beam.text)} ${number(Math.exp(beam.logp))}${forced ? ` · ${t("forced")}` : ""}`;
  const now = self.step() === at;
  return h(
    "button",
    { class: `token${now ? " chosen" : ""}${forced ? " forced" : ""}`, title: told, "aria-label": told, "aria-current": now ? "step" : null, onclick: () => self.go(at) },
    shown(beam.text),
  );
}

/** The matrix, a row for every token so far. @param {HTMLElement} place @param {Shown} search @param {Path} path */
function aligned(place, search, path) {
  return effect(() => {
    const it = search.value.it;
    fill(place);
    const now = path.value;
    if (!now.length) {
      if (!state.text.value) fill(place, h("p", {}, t("empty")));
      return undefined;
    }
    const [layer, head] = [state.ofLayer.value, state.ofHead.value];
    if (!it.start.kind) {
      fill(place, h("p", {}, t("blind")));
      return undefined;
    }
    const { weights, queries, keys } = alignment(it, now, layer, head);
    const group = { name: "", kind: it.start.kind, layers: [], heads: 0, queries, keys, causal: false };
    const title = [it.start.layers[layer] || t("mean"), head < 0 ? t("mean") : `${t("head")} ${head}`].join(", ");
    return heat.mount(place, { weights, group, title });
  });
}

/** What was likely where the token of the step was chosen. @param {HTMLElement} place @param {Shown} search @param {Path} path @param {ReturnType<typeof player>} self */
function choices(place, search, path, self) {
  return effect(() => {
    const now = path.value;
    const beam = now[self.step()];
    const tokens = beam ? likelyAt(search.value.it, beam) : [];
    likely.show(place, tokens, beam ? beam.token : -1, (token) => force(now, token));
  });
}

/** @param {HTMLElement} place @param {Shown} search @param {Path} path @param {ReturnType<typeof player>} self */
function tree(place, search, path, self) {
  const ids = signal(new Set());
  const choose = (/** @type {number} */ id) => {
    self.go(self.step());
    state.node.value = id;
  };
  const follow = effect(() => {
    ids.value = new Set(path.value.map((beam) => beam.id));
  });
  const end = effect(() => beamTree.mount(place, search.value.it, search.value.tree, { step: self.step, path: () => ids.value, choose }));
  return () => {
    end();
    follow();
  };
}
