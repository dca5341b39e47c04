// @ts-check
/** The tokens of both sides, tinted by what the chosen query attends to, or by what attends to the chosen key. */

import { fill, h, strong } from "../dom.js";
import { effect, signal } from "../store.js";
import { largestAt, largestOf } from "../core/heatmap.js";
import { apart, cut, number, percent, shown, together } from "../core/text.js";
import * as ends from "./ends.js";
import { choose, chosen, locked } from "./heat.js";
import * as legend from "./legend.js";
import * as state from "../state.js";
import { learn, phrase, t } from "../strings.js";
import { tint } from "./tint.js";
import { toolbar } from "./toolbar.js";
import { WORDS } from "../words/text.js";
import { sidesOf } from "../titles.js";

learn(WORDS);

/** Up to how many letters of both sides these have so many pixels. */
const LETTERS = /** @type {[number, number][]} */ ([
  [60, 34],
  [100, 26],
  [220, 20],
]);
/** Tokens of a side beyond which it is scrolled. */
const MANY = 120;
/** Letters of the token that is named below another one. */
const NAMED = 10;
/** A share of which one decimal says nothing. */
const LEAST = 0.001;
/** Of the height of the window, what the tokens of a scrolled side take at most where they are tinted, and else. */
const [TALL, LOW] = [0.42, 0.18];

/** @typedef {import("./links.js").Heads} Heads */

/** What the tints are of: a query (-1) or a key that is looked at. @param {Heads} head */
export function tinted(head) {
  const at = state.hovered.value;
  if (!at) return settled(head);
  return at.q < 0 ? { q: -1, k: at.k } : { q: at.q, k: -1 };
}

/** What the shares below the tokens are of, as the tints are while no token is pointed at. @param {Heads} head */
function settled(head) {
  const { q, k } = chosen(head);
  if (Math.max(q, k) < 0 || (q >= 0 && state.direction.value !== "keys")) return { q, k: -1 };
  return { q: -1, k: k < 0 ? ownKey(head, q) : k };
}

/** The key of a query: its own position, of another sequence what it looks at most. @param {Heads} head @param {number}
 * q */
const ownKey = ({ group, weights }, q) =>
  state.oneSequence(group) ? q : largestAt(weights, q * group.keys.length, group.keys.length);

/** A share among many, of which most are small. @param {number} weight */
export const shareOf = (weight) => (weight < LEAST ? "·" : percent(weight, 1));

/** A weight in percent, with three digits or as many as it has. @param {number} weight */
export function percentage(weight) {
  const places = 2 - Math.floor(Math.log10(100 * Math.abs(weight)));
  return together(percent(weight, Math.max(1, Math.min(8, places))).replace(/\.0+ |(?<=\.\d+)0+ /, " "));
}

/**
 * Of many tokens the weights of one row or column have colours of their own, as the first ones are much larger.
 * @param {Heads} head @param {Float32Array} weights @param {{ q: number, k: number }} of a row or column, -1 for none
 */
export function compared({ group: { queries, keys } }, weights, { q, k }) {
  const columns = keys.length;
  if (Math.max(queries.length, columns) <= MANY || Math.max(q, k) < 0) return weights;
  return q < 0 ? columnOf(weights, k, columns) : weights.subarray(q * columns, (q + 1) * columns);
}

/** @param {Float32Array} weights @param {number} k @param {number} columns */
const columnOf = (weights, k, columns) =>
  Float32Array.from({ length: weights.length / columns }, (_, q) => weights[q * columns + k]);

/**
 * @param {HTMLElement} place @param {Heads & { marked?: Float32Array }} head `marked`: minus infinity where a pair is
 * forbidden
 */
export function mount(place, head) {
  const { group, marked: weights = head.weights } = head;
  const columns = group.keys.length;
  const positions = (/** @type {string[]} */ side) => (side.length > MANY ? side.map((_, at) => at) : null);
  const {
    queries,
    keys,
    end: unmark,
  } = ends.mount({ ...head, press: (side, at) => pressed(head, side, at) }, "behind", {
    q: positions(group.queries),
    k: positions(group.keys),
  });
  const [names, sentence, bar] = [sidesOf(group), h("p", { class: "legend" }), h("div")];
  // few tokens are as large as a figure
  const letters = [...group.queries, ...group.keys].join(" ").length;
  const size = LETTERS.find(([most]) => letters <= most);
  place.style.setProperty("--letters", size ? `${size[1]}px` : "");
  place.append(directions());
  // what is chosen is brought into sight, else the largest of the row or column that is shown
  const inSight = (/** @type {number} */ own, /** @type {() => number} */ largest) =>
    own >= 0 ? { at: own, chosen: true } : { at: largest(), chosen: false };
  const from = side(place, t(names.from), queries, () => {
    const { k } = settled(head);
    return { ...inSight(chosen(head).q, () => largestAt(weights, k, queries.length, columns)), tinted: k >= 0 };
  });
  const to = side(place, t(names.to), keys, () => {
    const { q, k } = settled(head);
    return { ...inSight(q < 0 ? k : chosen(head).k, () => largestAt(weights, q * columns, columns)), tinted: k < 0 };
  });
  // below the tokens, so that these do not move while it changes
  place.append(sentence, bar);
  const explain = legend.mount(bar);
  const [ofQuery, ofKey] = [group.queries, group.keys].map((labels) => apart(labels, (label) => cut(label, NAMED)));
  const [fromName, toName] = [group.queries, group.keys].map((labels) => apart(labels, shown));
  /** The label of the largest of some weights, and how much that is. */
  const largest = (
    /** @type {string} */ arrow,
    /** @type {(at: number) => string} */ name,
    /** @type {number} */ count,
    /** @type {number} */ from,
    /** @type {number} */ step,
  ) => {
    const most = largestAt(weights, from, count, step);
    const weight = weights[from + most * step];
    // of a muted head none is
    return weight > 0 ? `${arrow} ${name(most)} ${percent(weight, 0)}` : "";
  };
  const sum = (/** @type {Float32Array} */ some) => some.reduce((all, weight) => all + Math.max(0, weight), 0);
  const share = (/** @type {HTMLElement} */ node, /** @type {number} */ weight) =>
    weight === -Infinity ? "" : node.closest(".many") ? shareOf(weight) : percent(weight, 1);
  const end = [
    unmark,
    from.end,
    to.end,
    effect(() => {
      const shaded = compared(head, weights, tinted(head));
      explain(legend.shading({ weights: shaded, write: percentage }), shaded, false);
    }),
    effect(() => {
      const { q, k } = tinted(head);
      const top = largestOf(compared(head, weights, { q, k }));
      const put = (/** @type {HTMLElement} */ node, /** @type {number | null} */ weight) => {
        const forbidden = weight === -Infinity;
        node.classList.toggle("forbidden", forbidden);
        if (weight === null || forbidden) node.removeAttribute("style");
        else tint(node, weight, top);
        const position = node.closest(".many") ? `${node.textContent} ` : "";
        node.title = weight === null ? position : position + (forbidden ? legend.lacking() : number(weight));
        node.dataset.now = weight === null ? "" : share(node, weight);
      };
      place.classList.toggle("pointed", Boolean(state.hovered.value));
      queries.forEach((node, at) => {
        node.toggleAttribute("data-looked", at === q);
        put(node, k < 0 ? null : weights[at * columns + k]);
      });
      keys.forEach((node, at) => {
        node.toggleAttribute("data-looked", at === k);
        put(node, q < 0 ? null : weights[q * columns + at]);
      });
    }),
    // pointing at a token moves none: its shares stand over these, which keep their width
    effect(() => {
      const { q, k } = settled(head);
      queries.forEach((node, at) => {
        node.dataset.share =
          k < 0 ? largest("→", ofKey, columns, at * columns, 1) : share(node, weights[at * columns + k]);
      });
      keys.forEach((node, at) => {
        node.dataset.share =
          q < 0 ? largest("←", ofQuery, queries.length, at, columns) : share(node, weights[q * columns + at]);
      });
    }),
    effect(() => {
      const { q, k } = tinted(head);
      const { first, last } = to.seen.value;
      const row = q < 0 ? null : weights.subarray(q * columns, (q + 1) * columns);
      if (row && last - first + 1 < columns)
        fill(
          sentence,
          phrase(
            "tint_row_part",
            strong(fromName(q)),
            first + 1,
            last + 1,
            percent(sum(row.subarray(first, last + 1)), 0),
          ),
        );
      else if (row) fill(sentence, sum(row) ? phrase("tint_row", strong(fromName(q))) : "");
      else if (k >= 0)
        fill(
          sentence,
          phrase(
            "tint_column",
            strong(toName(k)),
            percent(sum(columnOf(weights, k, columns)) / group.queries.length, 1),
          ),
        );
    }),
  ];
  return () => end.forEach((one) => one());
}

/**
 * A click on a token: a query alone, a key behind the query that is looked at, which stays.
 * @param {Heads} head @param {"q" | "k"} side @param {number} at
 */
function pressed(head, side, at) {
  const now = locked(head);
  // a finger that has left points at nothing
  state.hovered.value = null;
  if (side === "q") choose({ q: now.q === at && now.k < 0 ? -1 : at, k: -1 }, head);
  else choose({ q: chosen(head).q, k: now.k === at ? -1 : at }, head);
}

/**
 * A side's title and tokens, many in a box that scrolls to what is chosen and says what is in sight.
 * @param {HTMLElement} place @param {string} title @param {HTMLElement[]} tokens
 * @param {() => { at: number, chosen: boolean, tinted: boolean }} wanted the token that is brought into sight, -1 for
 * none; what is tinted has more room
 */
function side(place, title, tokens, wanted) {
  const seen = signal({ first: 0, last: tokens.length - 1 });
  const [caption, box] = [h("p", { class: "side" }, title), h("div", { class: "tokens with-shares" }, tokens)];
  place.append(caption, box);
  if (tokens.length <= MANY) return { seen, end: () => {} };
  box.classList.add("many");
  for (const [name, value] of [
    ["tabindex", "0"],
    ["role", "region"],
    ["aria-label", title],
  ])
    box.setAttribute(name, value);
  const range = h("span", {}, () =>
    t("tokens_seen", seen.value.first + 1, seen.value.last + 1, tokens.length.toLocaleString("en")),
  );
  caption.append(h("span", { class: "seen" }, " · ", range));
  const look = () => {
    const [top, bottom] = [box.scrollTop - 2, box.scrollTop + box.clientHeight + 2];
    const within = (/** @type {HTMLElement} */ node) =>
      node.offsetTop >= top && node.offsetTop + node.offsetHeight <= bottom;
    const first = Math.max(0, tokens.findIndex(within));
    const after = tokens.findIndex((node, place) => place > first && !within(node));
    const last = (after < 0 ? tokens.length : after) - 1;
    if (first !== seen.peek().first || last !== seen.peek().last) seen.value = { first, last };
    box.classList.toggle("more-above", first > 0);
    box.classList.toggle("more-below", last < tokens.length - 1);
  };
  let height = LOW;
  // the box ends between two lines
  const cutBetween = (high = height) => {
    height = high;
    const next = tokens.find((node) => node.offsetTop > tokens[0].offsetTop);
    if (!next) return;
    const line = next.offsetTop - tokens[0].offsetTop;
    const most = Math.max(2, Math.floor((height * innerHeight) / line));
    box.style.maxHeight = `${most * line - (line - tokens[0].offsetHeight) / 2}px`;
    look();
  };
  let [scrolled, mounted, alive] = [false, false, true];
  /** Brings what is wanted to the middle; what somebody scrolled away stays where it is. */
  const middle = () => {
    const node = tokens[wanted().at];
    const [top, high] = [box.scrollTop, box.clientHeight];
    if (!node || (node.offsetTop >= top && node.offsetTop + node.offsetHeight <= top + high)) return;
    box.scrollTop = node.offsetTop - (high - node.offsetHeight) / 2;
    scrolled = false;
  };
  // lines break elsewhere with another width, and once letters have come
  const again = () => {
    if (!alive) return;
    cutBetween();
    if (!scrolled) middle();
  };
  const resized = new ResizeObserver(again);
  resized.observe(box);
  document.fonts.ready.then(again);
  box.addEventListener("scroll", look);
  for (const name of ["wheel", "pointerdown", "keydown"]) box.addEventListener(name, () => (scrolled = true));
  const end = effect(() => {
    const { at, chosen: here, tinted } = wanted();
    cutBetween(tinted ? TALL : LOW);
    const node = tokens[at];
    middle();
    // a click far below brings it back to the screen
    if (node && mounted && here) node.scrollIntoView({ block: "nearest" });
    mounted = true;
  });
  return {
    seen,
    end: () => {
      alive = false;
      resized.disconnect();
      end();
    },
  };
}

function directions() {
  const names = ["", "keys"];
  const button = (/** @type {string} */ name) =>
    h(
      "button",
      {
        class: () => (state.direction.value === name ? "tab chosen" : "tab"),
        "aria-pressed": () => String(state.direction.value === name),
        onclick: () => (state.direction.value = name),
      },
      t(name ? "direction_keys" : "direction_queries"),
    );
  return toolbar(() => t("direction"), "tabs", h("span", { class: "seg" }, names.map(button)));
}
