// @ts-check
/** Position schemes, two side by side: what they add or turn, how alike positions are, the hands of a rotary one. */

import { getJson, getNumbers, query as asked } from "../api.js";
import { formula } from "../core/formula.js";
import { number } from "../core/text.js";
import { fill, h } from "../dom.js";
import * as state from "../state.js";
import { effect, signal } from "../store.js";
import { learn, sentences, t } from "../strings.js";
import * as scheme from "../views/scheme.js";
import { FORMULAS, SCHEMES, WORDS } from "../words/positions.js";

learn(WORDS);

/**
 * @typedef {{ kind: string, model?: string, library?: string | null, line: string, where: string, longer?: string,
 * paper?: string, base: boolean, does: string | null, why?: string }} Scheme
 */

/** @type {{ value: Scheme[] }} */
const schemes = signal(/** @type {Scheme[]} */ ([]));

/** A name of a scheme in the address. @param {Scheme} one */
const nameOf = (one) => (one.model ? `${one.model}/${one.kind}` : one.kind);

/** Its words, if it is a scheme of the library. @param {Scheme} one */
function words(one) {
  const kind = one.model ? one.library : one.kind;
  const [name, does, longer] = (kind && SCHEMES[kind]) || [];
  const chosen = (/** @type {[string, string] | undefined} */ pair) =>
    pair && pair[state.language.value === "zh" ? 1 : 0];
  return { kind, name: chosen(name), does: chosen(does), longer: chosen(longer) };
}

/** The runs here that have such positions. @param {Scheme} one */
const runsWith = (one) =>
  one.model ? [one.model] : schemes.value.flatMap((other) => (other.library === one.kind && other.model) || []);

/** @param {string} name */
const found = (name) => schemes.value.find((one) => nameOf(one) === name);

/** @param {HTMLElement} place */
export function mount(place) {
  const top = h("div", { class: "tabs sliding" });
  const sides = [state.first, state.second].map((chosen) => ({ chosen, node: h("section", { class: "panel half" }) }));
  place.append(
    h("h1", {}, () => t("positions_title")),
    top,
    h(
      "div",
      { class: "panels" },
      sides.map((one) => one.node),
    ),
  );
  let alive = true;
  getJson("/api/v1/positions").then((told) => {
    if (alive) schemes.value = told.positions;
  }, state.failed);
  const ends = [
    effect(() => fill(top, sliders())),
    ...sides.map(({ chosen, node }) => effect(() => side(node, chosen))),
  ];
  return () => {
    alive = false;
    ends.forEach((end) => end());
  };
}

/** The sliders that mean something to what is shown. */
function sliders() {
  const shown = [state.first.value, state.second.value].map(found).filter(Boolean);
  const does = (/** @type {string} */ what) => shown.some((one) => one && one.does === what);
  const own = shown.some((one) => one && !one.model);
  return [
    slider(
      "count",
      state.count,
      4,
      256,
      4,
      (value) => value,
      (value) => value,
    ),
    own && (does("vectors") || does("turns"))
      ? slider(
          "width",
          state.width,
          4,
          256,
          4,
          (value) => value,
          (value) => value,
        )
      : null,
    shown.some((one) => one && one.base)
      ? slider("base", state.base, 0.5, 6, 0.25, (value) => Math.round(10 ** value), Math.log10)
      : null,
    does("scores")
      ? slider(
          "head",
          state.head,
          1,
          8,
          1,
          (value) => value - 1,
          (value) => value + 1,
        )
      : null,
    does("turns")
      ? slider(
          "spot",
          state.spot,
          0,
          255,
          1,
          (value) => value,
          (value) => value,
        )
      : null,
  ].filter(Boolean);
}

/**
 * @param {string} name @param {{ value: number, peek: () => number }} of @param {number} min @param {number} max
 * @param {number} step
 * @param {(position: number) => number} value of a position of the slider @param {(value: number) => number} position
 */
function slider(name, of, min, max, step, value, position) {
  const field = h("input", {
    type: "range",
    min,
    max,
    step,
    "aria-label": () => t(name),
    id: `slide-${name}`,
    oninput: () => state.instead(() => (of.value = value(Number(field.value)))),
  });
  field.value = String(position(of.peek()));
  return h(
    "label",
    { class: "slider" },
    () => t(name),
    field,
    h("output", {}, () => number(name === "base" ? of.value : position(of.value))),
  );
}

/** @param {HTMLElement} node @param {{ value: string }} chosen */
function side(node, chosen) {
  const all = schemes.value;
  const now = found(chosen.value);
  const runs = now ? [...new Set(runsWith(now))] : [];
  const own = runs.length ? h("span", { class: "own" }, `● ${t("scheme_of_run", runs.join(t("between")))}`) : null;
  fill(node, h("div", { class: "chosen" }, choice(chosen, all), own));
  if (!now) return undefined;
  node.append(about(now));
  if (!now.does) {
    node.append(h("p", { class: "note" }, why(now)));
    document.documentElement.dataset.ready = "none";
    return undefined;
  }
  const body = h("div");
  node.append(body);
  return effect(() => drawn(body, now));
}

/** The width of the grid whose patches are the positions, as the library sizes it; 0 for none. @param {Scheme} now */
const grid = (now) => (inGrid(now) ? Math.floor(Math.sqrt(state.count.value)) : 0);

/** @param {Scheme} now */
const inGrid = (now) => !now.model && now.kind.endsWith("_2d");

/** @param {HTMLElement} body @param {Scheme} now */
function drawn(body, now) {
  let alive = true;
  /** @type {() => void} */
  let end = () => {};
  Promise.all([getNumbers(path(now, "values")), getNumbers(path(now, "similarity"))]).then(
    ([values, alike]) => {
      if (!alive) return;
      fill(body);
      end = scheme.mount(body, { does: /** @type {string} */ (now.does), values, alike, grid: grid(now) });
      document.documentElement.dataset.ready = `positions/${nameOf(now)}/${values.shape.join("x")}`;
    },
    (error) => {
      if (alive) fill(body, h("p", { class: "note" }, error.message));
    },
  );
  return () => {
    alive = false;
    end();
  };
}

/** @param {Scheme} one @param {string} what */
function path(one, what) {
  const values = {
    kind: one.kind,
    n: state.count.value,
    what,
    ...(one.model ? { model: one.model } : { d: state.width.value }),
  };
  const more = {
    ...(one.base ? { base: state.base.value } : {}),
    ...(one.does === "scores" ? { head: state.head.value } : {}),
  };
  return `/api/v1/positional?${asked({ ...values, ...more })}`;
}

/** Why nothing is drawn of a scheme. @param {Scheme} one */
function why(one) {
  if (!words(one).name) return one.why || "";
  return one.where === "nowhere" ? t("draws_nothing") : t("draws_later", one.kind, t("attend"));
}

/** @param {{ value: string }} chosen @param {Scheme[]} all */
function choice(chosen, all) {
  const label = (/** @type {Scheme} */ one) => {
    const name = words(one).name || (one.model ? one.line : one.kind);
    return one.model
      ? `${name} · ${t("of_run")} ${one.model}: ${one.kind}`
      : `${name}${runsWith(one).length ? " ●" : ""}`;
  };
  const select = h("select", { "aria-label": t("kind"), onchange: () => (chosen.value = select.value) }, [
    ...all.map((one) => h("option", { value: nameOf(one) }, label(one))),
    h("option", { value: "-" }, `— ${t("nothing")} —`),
  ]);
  select.value = found(chosen.value) ? chosen.value : "-";
  return select;
}

const FIXED = ["alibi", "sandwich", "sinusoidal_2d"];

/** @param {Scheme} now */
function about(now) {
  const { kind, does, longer } = words(now);
  const learned = !now.model && now.does && !now.base && !FIXED.includes(now.kind);
  return h(
    "div",
    { class: "about" },
    h("p", {}, does || now.line),
    kind && FORMULAS[kind] ? h("p", { class: "formula" }, FORMULAS[kind].split(", \\; ").map(formula)) : null,
    h("p", { class: "note" }, sentences(longer || now.longer || "", now.paper || "")),
    now.model || now.kind !== "fire" ? null : h("p", { class: "note" }, t("here_fire")),
    inGrid(now) ? h("p", { class: "note" }, () => t("here_grid", grid(now))) : null,
    learned ? h("p", { class: "note" }, t("untrained")) : null,
  );
}
