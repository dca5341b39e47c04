// @ts-check
/** An output as it is written: where each token looks, the beams, what else was likely; step by step, and otherwise. */

import { alignment, begun, likelyAt, lookOf, pathTo } from "../core/search.js";
import { quoted } from "../core/quoted.js";
import { apart, cut, number, percent, shown } from "../core/text.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { batch, effect, signal } from "../store.js";
import { learn, phrase, t } from "../strings.js";
import { headName, layerTitle } from "../titles.js";
import * as beamTree from "../views/beam_tree.js";
import { field } from "../views/forcing.js";
import { later } from "../views/later.js";
import * as likely from "../views/likely.js";
import { controls, player } from "../views/player.js";
import { begin } from "../views/nothing.js";
import { tint } from "../views/tint.js";
import { asking, drawn, lookAt, looking } from "../views/writing.js";
import { keyboard } from "../views/writing_keys.js";
import { options } from "../views/writing_options.js";
import { WORDS } from "../words/translate.js";

learn(WORDS);

/** @typedef {import("../core/search.js").Beam} Beam */
/** @typedef {import("../views/writing.js").Shown} Shown */
/** @typedef {{ value: Beam[], peek: () => Beam[] }} Path */

/** Letters of a token in a sentence. */
const LETTERS = 24;
/** What draws the map, once there is something to write. */
const heat = signal(/** @type {typeof import("../views/heat.js") | null} */ (null));

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
  const panels = parts(
    () => !path.value.length && !open.value,
    () => search.value.tree.lanes < 2,
  );
  const any = field(path, (token) => force(search.peek().it, path.peek(), token));
  panels.forcing.append(any.node);
  const given = h("div");
  const work = h("div", {}, h("div", { class: "writing" }, play.node, chosen.node), panels.all);
  fill(
    place,
    h("h1", { class: "unseen" }, () => t("translate")),
    given,
    work,
  );
  const ends = [
    asked.end,
    self.end,
    play.end,
    chosen.end,
    any.end,
    effect(() => {
      fill(given);
      void state.language.value;
      const lacking = state.lacks("translate") === "translate";
      // another file is no reason to list them again
      work.hidden = lacking || !(state.readsFiles() || state.asked());
      if (lacking) {
        const writes = (/** @type {any} */ run) => run.writes;
        return later(() => import("../views/fitting.js"), given, writes, "no_writer");
      }
      // what is not typed is chosen from a list
      if (state.readsFiles()) return later(() => import("../views/examples.js"), given);
      if (!work.hidden) return undefined;
      const offered = h("div", { class: state.reads() ? "awaited" : null });
      fill(
        given,
        h("p", {}, t("write_lead")),
        h("p", { class: "state" }, state.reads() ? begin() : t("no_runs")),
        offered,
      );
      document.documentElement.dataset.ready = "none";
      return state.reads() ? later(() => import("../views/begin.js"), offered) : undefined;
    }),
    keyboard(self, count, search),
    effect(() => {
      // it is loaded while the first word is written
      if (state.asked()) import("../views/heat.js").then((view) => (heat.value = view));
    }),
    opening(search, open, self),
    effect(() => {
      const whole = state.asked() ? through(search.value) : [];
      // a hypothesis that was given up has fewer steps
      if (search.value.it.end) count.value = whole.length;
      path.value = whole.slice(0, self.step() + 1);
    }),
    strips(panels, search, path, self),
    aligned(panels.alignment, search, path, self),
    choices(panels.likely, search, path),
    tree(panels.tree, search, path, self),
  ];
  return () => {
    ends.forEach((end) => end());
    stop(open);
  };
}

/**
 * Once an input is written, the step whose token looks at most words is open: the last, an end, shows least. Where
 * all is one sequence, the last is, whose map has all rows.
 * @param {{ value: ReturnType<typeof drawn>, peek: () => ReturnType<typeof drawn> }} search
 * @param {import("../views/writing.js").Open} open @param {ReturnType<typeof player>} self
 */
function opening(search, open, self) {
  let seen = "";
  return effect(() => {
    const { it } = search.value;
    const about = JSON.stringify([state.model.value, state.asked()]);
    if (open.value || !it.end || seen === about) return;
    seen = about;
    if (it.own || state.step.peek() >= 0 || state.forced.peek() || self.playing()) return;
    const shared = through(search.peek()).map((beam, at, all) => {
      // neither a mark of punctuation nor what ends it is a word
      if (at === all.length - 1 || /^[\p{P}\p{S}\s]*$/u.test(beam.text)) return 0;
      const [first = 0, second = 0] = Array.from(lookOf(it, beam, -1, -1) || []).sort((one, two) => two - one);
      return first * second;
    });
    const most = Math.max(0, ...shared);
    if (most > 0) state.instead(() => self.go(shared.indexOf(most)));
  });
}

/** The places of the page. @param {() => boolean} idle nothing is written @param {() => boolean} chain no hypotheses */
function parts(idle, chain) {
  const make = (/** @type {string} */ name) => h("div", { class: name });
  const found = {
    read: make("tokens"),
    written: make("tokens latest"),
    alignment: make("held"),
    likely: make("held"),
    forcing: make("forces"),
    tree: make("scrolls"),
  };
  found.tree.tabIndex = 0;
  found.written.onscroll = () => found.written.classList.toggle("fades", found.written.scrollTop > 1);
  const strip = (/** @type {string} */ name, /** @type {HTMLElement} */ node) =>
    h(
      "div",
      { class: "strip" },
      h("p", { class: "side" }, () => t(name)),
      node,
    );
  const panel = (
    /** @type {string} */ kind,
    /** @type {string} */ title,
    /** @type {HTMLElement} */ node,
    /** @type {string} */ note,
  ) =>
    h(
      "section",
      {
        class: `panel ${kind}`,
        "aria-label": () => t(title),
        hidden: kind === "wide" ? false : () => idle() || (kind === "whole" && chain()),
      },
      h("h2", {}, () => t(title)),
      node,
      note && h("p", { class: "note" }, () => t(note)),
    );
  const all = [
    strip("source", found.read),
    strip("written", found.written),
    h(
      "div",
      { class: "panels writes" },
      panel("wide", "alignment", found.alignment, ""),
      panel(
        "side-panel",
        "likely",
        h(
          "div",
          {},
          found.likely,
          h("p", { class: "note" }, () => t("pick")),
          found.forcing,
        ),
        "",
      ),
      panel("whole", "tree", found.tree, "hypotheses"),
    ),
    h("p", { class: "note" }, () => t("note")),
    h("p", { class: "note" }, () => t("writerKeys")),
  ];
  return { ...found, all };
}

/**
 * The hypothesis that is shown: the best, or the best one through the chosen beam.
 * @param {ReturnType<typeof drawn>} search
 */
function through({ it, best, tree }) {
  const chosen = it.beams.has(state.node.value) ? state.node.value : best;
  const found = pathTo(it, chosen);
  for (let id = tree.heirs.get(chosen); chosen && id !== undefined; id = tree.heirs.get(id))
    found.push(/** @type {Beam} */ (it.beams.get(id)));
  return found;
}

/** Ends the work of the server. @param {import("../views/writing.js").Open} open */
function stop(open) {
  const now = open.peek();
  if (now) now.abort();
}

/**
 * Forces a token after those of a path, in place of its last; the head stays, so that both outputs can be compared.
 * @param {Shown["value"]["it"]} it @param {Beam[]} path @param {number} token
 */
function force(it, path, token) {
  batch(() => {
    if (it.end) lookAt(looking(it));
    state.node.value = -1;
    state.forced.value = [...path.slice(0, -1).map((beam) => beam.token), token].join(",");
  });
}

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
    const [layer, head] = looking(it);
    const look = beam ? lookOf(it, beam, layer, head) : null;
    // the places of a picture are shown on it
    const named = it.pixels ? [] : it.first;
    /** @type {HTMLElement} */ (panels.read.parentElement).hidden = Boolean(it.pixels);
    const tokens = named.map((token) => h("span", { class: "token" }, shown(token)));
    if (look) tokens.forEach((node, k) => tinted(node, look[k]));
    fill(panels.read, tokens);
    const steps = now.map((one, at) =>
      written(one, { now: at === now.length - 1, forced: at < far }, () => self.go(at)),
    );
    // of one sequence what was written is read too
    if (look && it.own) steps.slice(0, -1).forEach((node, at) => tinted(node, look[it.first.length + at]));
    fill(panels.written, steps);
    // the latest is in view, and what goes on above it fades
    panels.written.scrollTop = panels.written.scrollHeight;
  });
}

/** @param {HTMLElement} node @param {number} weight */
function tinted(node, weight) {
  tint(node, weight);
  node.title = node.title ? `${node.title} · ${t("looked")} ${number(weight)}` : number(weight);
}

/** @param {Beam} beam @param {{ now: boolean, forced: boolean }} is @param {() => void} go */
function written(beam, is, go) {
  const told = `${shown(beam.text)} ${number(Math.exp(beam.logp))}${is.forced ? ` · ${t("forced")}` : ""}`;
  const kind = `token${is.now ? " chosen" : ""}${is.forced ? " forced" : ""}`;
  return h(
    "button",
    { class: kind, title: told, "aria-label": told, "aria-current": is.now ? "step" : null, onclick: go },
    shown(beam.text),
  );
}

/**
 * The matrix, a row for every token so far; over a picture the places of each.
 * @param {HTMLElement} place @param {Shown} search @param {Path} path @param {ReturnType<typeof player>} self
 */
function aligned(place, search, path, self) {
  return effect(() => {
    const it = search.value.it;
    fill(place);
    const now = path.value;
    if (!now.length) {
      const line = h("p");
      fill(place, line);
      return effect(() => fill(line, state.asked() ? state.status.value : begin()));
    }
    const [layer, head] = looking(it);
    if (!it.start.kind) {
      fill(place, h("p", {}, t("blind")));
      return undefined;
    }
    const { weights, queries, keys } = alignment(it, now, layer, head);
    const group = { name: "", kind: it.start.kind, layers: [], heads: 0, queries, keys, causal: false };
    const title = t(
      "layer_head",
      layer in it.start.layers ? layerTitle(it.start.layers[layer], layer, it.start.kind) : t("ofLayers"),
      head < 0 ? t("ofHeads") : headName(head),
    );
    let picture = () => {};
    if (it.pixels) {
      const image = h("div");
      place.append(image);
      import("../views/writing_picture.js").then((seen) => {
        if (image.isConnected) picture = seen.mount(image, it, now, self.go);
      });
    }
    place.append(
      h("p", { class: "side whose" }, title),
      it.pixels ? "" : said(now[now.length - 1], weights, keys, head < 0 ? t("all_heads") : headName(head)),
    );
    const more = Math.max(0, expected(search.value) - now.length);
    const end = heat.value?.mount(place, { weights, group, title, fitsScreen: !it.own, more, short: it.own });
    if (!it.pixels) place.scrollTop = place.scrollHeight;
    return () => {
      picture();
      end?.();
    };
  });
}

/**
 * Tokens of the hypothesis that is shown, or as many as were read.
 * @param {ReturnType<typeof drawn>} search
 */
const expected = (search) => Math.max(through(search).length, search.it.own ? 0 : search.it.first.length);

/**
 * Where the last token looks most, in a sentence.
 * @param {Beam} beam @param {Float32Array} weights a row for each token @param {string[]} keys @param {string} whose
 */
function said(beam, weights, keys, whose) {
  const row = weights.subarray(weights.length - keys.length);
  const [most] = keys.map((_, k) => k).sort((one, two) => row[two] - row[one]);
  const strong = (/** @type {string} */ text) => h("strong", {}, h("bdi", {}, text));
  const [from, to] = [quoted(shown(beam.text)), apart(keys, (key) => quoted(cut(key, LETTERS)))(most)];
  return h("p", { class: "say" }, phrase("say_step", strong(from), strong(percent(row[most], 1)), strong(to), whose));
}

/**
 * What was likely where the token of the step was chosen.
 * @param {HTMLElement} place
 * @param {Shown} search
 * @param {Path} path
 */
function choices(place, search, path) {
  return effect(() => {
    const now = path.value;
    const beam = now[now.length - 1];
    const tokens = beam ? likelyAt(search.value.it, beam) : [];
    likely.show(place, tokens, beam ? beam.token : -1, (token) => force(search.value.it, now, token));
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
  const end = effect(() =>
    beamTree.mount(place, search.value.it, search.value.tree, { step: self.step, path: () => ids.value, choose }),
  );
  return () => {
    end();
    follow();
  };
}
