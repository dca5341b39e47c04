// @ts-check
/** An output as it is written: where each token looks, the beams, what else was likely; step by step, and otherwise. */

import { begun, likelyAt, lookOf } from "../core/search.js";
import { number, shown } from "../core/text.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { batch, effect, signal } from "../store.js";
import { learn, t } from "../strings.js";
import { field } from "../views/forcing.js";
import { later } from "../views/later.js";
import * as likely from "../views/likely.js";
import { controls, player } from "../views/player.js";
import { begin } from "../views/nothing.js";
import { tint } from "../views/tint.js";
import { asking, drawn, lookAt, looking, released, through, upTo } from "../views/writing.js";
import { keyboard } from "../views/writing_keys.js";
import { options } from "../views/writing_options.js";
import { WORDS } from "../words/translate.js";

learn(WORDS);

/** @typedef {import("../core/search.js").Beam} Beam */
/** @typedef {import("../views/writing.js").Shown} Shown */
/** @typedef {{ value: Beam[], peek: () => Beam[] }} Path */

/** What draws the map and the tree, once there is something to write. */
const late = signal(/** @type {typeof import("../views/aligned.js") | null} */ (null));

/** @param {HTMLElement} place */
export function mount(place) {
  const search = signal(drawn(begun()));
  const open = signal(/** @type {AbortController | null} */ (null));
  const count = signal(0);
  const path = signal(/** @type {Beam[]} */ ([]));
  const plain = player(state.step, count, open);
  const go = (/** @type {number} */ at) =>
    batch(() => {
      released();
      plain.go(at);
    });
  const self = { ...plain, go };
  const asked = asking(search, count, open, self);
  const play = controls(self, count);
  const chosen = options(search, open, () => stop(open), asked.again);
  const panels = parts(
    () => !path.value.length && !open.value,
    () => search.value.tree.lanes < 2,
    () => search.value.it.start?.temperature,
  );
  const any = field(path, (token) => force(search.peek().it, upTo(path.peek()), token));
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
      const offered = h("div", { class: state.reads() ? "awaited" : null, "data-said": t("loading") });
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
      if (state.asked()) import("../views/aligned.js").then((view) => (late.value = view));
    }),
    opening(search, open, self),
    effect(() => {
      const whole = state.asked() ? through(search.value) : [];
      // a hypothesis that was given up has fewer steps
      if (search.value.it.end) count.value = whole.length;
      path.value = whole.slice(0, self.step() + 1);
    }),
    strips(panels, search, path, self),
    choices(panels.likely, search, path),
    effect(() => late.value?.mount(panels, search, path, self)),
    effect(() => {
      if (self.playing()) released();
    }),
  ];
  return () => {
    ends.forEach((end) => end());
    stop(open);
  };
}

/**
 * Opens the step whose token looks at most words: the last, an end, shows least; of one sequence the last.
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
    if (it.own || state.step.peek() >= 0 || state.query.peek() >= 0 || state.forced.peek() || self.playing()) return;
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

/**
 * The places of the page.
 * @param {() => boolean} idle nothing is written @param {() => boolean} chain no hypotheses
 * @param {() => number | undefined} random the temperature of what is drawn at random
 */
function parts(idle, chain, random) {
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
    h("p", { class: "note", hidden: () => !state.forced.value }, () => t("dashed")),
    h("p", { class: "note", hidden: () => !random() }, () => t("random", random())),
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

/** Ends the work of the server. @param {import("../views/writing.js").Open} open */
function stop(open) {
  const now = open.peek();
  if (now) now.abort();
}

/**
 * Forces a token in place of the last of a path; the head stays, so that both outputs can be compared.
 * @param {Shown["value"]["it"]} it @param {Beam[]} path @param {number} token
 */
function force(it, path, token) {
  batch(() => {
    if (it.end) lookAt(looking(it));
    state.node.value = -1;
    released();
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
    const row = upTo(now).length - 1;
    const beam = now[row];
    const [layer, head] = looking(it);
    const look = beam ? lookOf(it, beam, layer, head) : null;
    // the places of a picture are shown on it
    const named = it.pixels ? [] : it.first;
    /** @type {HTMLElement} */ (panels.read.parentElement).hidden = Boolean(it.pixels);
    const tokens = named.map((token) => h("span", { class: "token" }, shown(token)));
    if (look) tokens.forEach((node, k) => tinted(node, look[k]));
    fill(panels.read, tokens);
    const steps = (now.length ? through(search.value) : []).map((one, at) =>
      written(one, { now: at === row, forced: at < far, later: at >= now.length }, () => self.go(at)),
    );
    // of one sequence what was written is read too
    if (look && it.own) steps.slice(0, row).forEach((node, at) => tinted(node, look[it.first.length + at]));
    fill(panels.written, steps);
    // the chosen one is in view, and what goes on above it fades
    const [box, chosen] = [panels.written, steps[row]];
    box.scrollTop = chosen ? chosen.offsetTop + chosen.offsetHeight + 2 - box.offsetTop - box.clientHeight : 0;
  });
}

/** @param {HTMLElement} node @param {number} weight */
function tinted(node, weight) {
  tint(node, weight);
  node.title = node.title ? `${node.title} · ${t("looked")} ${number(weight)}` : number(weight);
}

/** @param {Beam} beam @param {{ now: boolean, forced: boolean, later: boolean }} is @param {() => void} go */
function written(beam, is, go) {
  const how = /** @type {const} */ (["forced", "later"]).filter((name) => is[name]);
  const told = [`${shown(beam.text)} ${number(Math.exp(beam.logp))}`, ...how.map((name) => t(name))].join(" · ");
  const kind = ["token", is.now ? "chosen" : "", ...how].join(" ");
  return h(
    "button",
    { class: kind, title: told, "aria-label": told, "aria-current": is.now ? "step" : null, onclick: go },
    shown(beam.text),
  );
}

/**
 * What was likely where the token of the step was chosen.
 * @param {HTMLElement} place @param {Shown} search @param {Path} path
 */
function choices(place, search, path) {
  return effect(() => {
    const now = upTo(path.value);
    const beam = now[now.length - 1];
    const tokens = beam ? likelyAt(search.value.it, beam) : [];
    likely.show(place, tokens, beam, (token) => force(search.value.it, now, token));
  });
}
