// @ts-check
/** Where each token of an output looks: a sentence, the map, the tree of the beams. */

import { post } from "../api.js";
import { alignment, likelyAt } from "../core/search.js";
import { quoted } from "../core/phrases.js";
import { apart, cut, percent, shown, together } from "../core/text.js";
import { fill, h, strong } from "../dom.js";
import * as state from "../state.js";
import { effect, signal } from "../store.js";
import { learn, phrase, sentences, t } from "../strings.js";
import { headName, layerTitle } from "../titles.js";
import { WORDS } from "../words/aligned.js";
import * as beamTree from "./beam_tree.js";
import * as heat from "./heat.js";
import { marks } from "./marks.js";
import { doubt } from "./near_even.js";
import { begin } from "./nothing.js";
import { looking, through, upTo } from "./writing.js";

learn(WORDS);

/** @typedef {import("./writing.js").Shown} Shown */
/** @typedef {{ value: import("../core/search.js").Beam[] }} Path */
/** @typedef {Pick<ReturnType<typeof import("./player.js").player>, "step" | "go">} Self */

/** Letters of a token in a sentence. */
const LETTERS = 24;

/**
 * @param {{ alignment: HTMLElement, tree: HTMLElement }} panels @param {Shown} search @param {Path} path
 * @param {Self} self
 */
export function mount(panels, search, path, self) {
  const line = h("p", { class: "note" });
  panels.alignment.before(line);
  const doubting = effect(() => {
    void state.language.value;
    const { end } = search.value.it;
    let alive = true;
    // outside of the effect, which is not to follow what is read there
    queueMicrotask(() => {
      const run = state.chosenRun();
      if (!alive || !end?.trace_id || !end.output || run.trained !== false) return;
      // with its answer given, nothing is written once more
      post("/api/v1/traces", { model: run.name, ...state.asked(), target: end.output })
        .then(doubt)
        .then(
          (words) => alive && fill(line, words),
          (error) => alive && state.failed(error),
        );
    });
    return () => {
      alive = false;
      fill(line);
    };
  });
  const ends = [doubting, aligned(panels.alignment, search, path, self), tree(panels.tree, search, path, self)];
  return () => ends.forEach((end) => end());
}

/**
 * The matrix, a row for every token so far; over a picture the places of each.
 * @param {HTMLElement} place @param {Shown} search @param {Path} path @param {Self} self
 */
function aligned(place, search, path, self) {
  return effect(() => {
    const it = search.value.it;
    const focused = place.contains(document.activeElement);
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
      import("./writing_picture.js").then((seen) => {
        if (image.isConnected) picture = seen.mount(image, it, now, self.go);
      });
    }
    const line = h("p", { class: "say", role: "status" });
    place.append(h("p", { class: "side whose" }, title), it.pixels ? "" : line);
    const whose = head < 0 ? t("all_heads") : headName(head);
    const cell = () => spoken(weights, queries, keys);
    // both axes count the same sequence
    const since = it.own ? it.first.length : 0;
    const saying = effect(() => fill(line, said(cell(), weights, queries, keys, whose, since)));
    const more = Math.max(0, expected(search.value) - now.length);
    const end = heat.mount(place, {
      weights,
      group,
      title,
      fitsScreen: !it.own,
      more,
      short: it.own,
      since,
      spoken: cell,
      sides: it.own ? { from: "from_written", to: "to_before" } : undefined,
    });
    const likely = likelyAt(it, upTo(now).slice(-1)[0]).map(({ text }) => text);
    place.append(
      h("p", { class: "note" }, () =>
        sentences(
          it.pixels ? "" : t("tinted"),
          marks(queries, keys, likely),
          /\ufffd/.test(String(likely)) ? t("likely_number") : "",
        ),
      ),
    );
    if (!it.pixels) place.scrollTop = place.scrollHeight;
    // a new map, the same focus
    if (focused) place.querySelector("canvas")?.focus({ preventScroll: true });
    return () => {
      picture();
      saying();
      end();
    };
  });
}

/** Tokens of the hypothesis that is shown, or as many as were read. @param {Shown["value"]} search */
const expected = (search) => Math.max(through(search).length, search.it.own ? 0 : search.it.first.length);

/**
 * The cell that the sentence speaks of: the locked one, else where the locked row, or the last, looks most.
 * @param {Float32Array} weights @param {string[]} queries @param {string[]} keys
 */
function spoken(weights, queries, keys) {
  const [row, column] = [state.query.value, state.key.value];
  const q = row >= 0 && row < queries.length ? row : queries.length - 1;
  const look = weights.subarray(q * keys.length, (q + 1) * keys.length);
  const [most] = keys.map((_, k) => k).sort((one, two) => look[two] - look[one]);
  return { q, k: q === row && look[column] >= 0 ? column : most };
}

/**
 * How much of its values a token takes from another, in a sentence.
 * @param {{ q: number, k: number }} cell @param {Float32Array} weights @param {string[]} queries
 * @param {string[]} keys @param {string} whose @param {number} since positions before the first row
 */
function said({ q, k }, weights, queries, keys, whose, since) {
  const row = weights.subarray(q * keys.length, (q + 1) * keys.length);
  const [from, to] = [
    since ? apart(queries, (token) => quoted(shown(token)), since)(q) : quoted(shown(queries[q])),
    apart(keys, (key) => quoted(cut(key, LETTERS)))(k),
  ];
  const even = percent(1 / row.filter((weight) => weight >= 0).length, 1);
  return [
    ...phrase("say_step", strong(from), strong(percent(row[k], 1)), strong(to), whose),
    " ",
    h("span", { class: "side" }, together(t("evenly_shared", even))),
  ];
}

/** @param {HTMLElement} place @param {Shown} search @param {Path} path @param {Self} self */
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
