// @ts-check
/** The shell: what is asked for above, pages at the side, one selection and its address for all of them. */

import { Refused, getJson, getNumbers, post, query as asked } from "./api.js";
import { setRamps } from "./core/color.js";
import { fill, h } from "./dom.js";
import { lock } from "./views/heat.js";
import * as state from "./state.js";
import { effect } from "./store.js";
import { t } from "./strings.js";

const PAGES = { "": "home", attend: "attend", trace: "trace", positions: "positions", vision: "vision", graph: "graph" };
const THEMES = ["", "light", "dark"];

/** The top bar: model, input, theme, language. */
function bar() {
  const input = h("input", {
    id: "input",
    type: "text",
    maxlength: 500,
    autocomplete: "off",
    "aria-label": () => t("input"),
    placeholder: () => t(`type_${state.reads() || "text"}`),
    value: () => (state.example.value >= 0 ? String(state.example.value) : state.text.value),
  });
  const look = (/** @type {Event} */ event) => {
    event.preventDefault();
    const typed = input.value.trim();
    // what is read from files is asked for by number
    const numbered = ["image", "sound", "series"].includes(state.reads()) && /^\d+$/.test(typed);
    state.give(numbered ? { example: Number(typed) } : { text: input.value });
    if (!state.page.value) state.page.value = state.best();
  };
  const models = h("select", { "aria-label": () => t("model"), onchange: () => state.pick(models.value) });
  effect(() => {
    const all = state.meta.value ? state.meta.value.models : [];
    fill(models, all.map((/** @type {any} */ one) => h("option", { value: one.name }, one.name)));
    if (state.model.value) models.value = state.model.value;
  });
  return h(
    "header",
    {},
    h("a", { class: "brand", href: "#/" }, "Headwise"),
    h("form", { onsubmit: look }, models, input, h("button", { type: "submit" }, () => t("look"))),
    h("button", { class: "plain", onclick: turned, "aria-label": "theme" }, "◐"),
    h("button", { class: "plain", onclick: () => (state.language.value = state.language.value === "zh" ? "" : "zh") }, () => t("language")),
  );
}

/** Light, dark, or as the system has it. */
function turned() {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme || "") + 1) % THEMES.length];
  if (next) root.dataset.theme = next;
  else delete root.dataset.theme;
  coloured();
}

const system = window.matchMedia("(prefers-color-scheme: dark)");

/** Tells whether the page is dark now. */
function coloured() {
  const theme = document.documentElement.dataset.theme;
  state.dark.value = theme ? theme === "dark" : system.matches;
}

/** The pages there are. */
function rail() {
  const links = Object.entries(PAGES).map(([path, name]) =>
    h("a", { href: () => state.address(path), "aria-current": () => (state.page.value === path ? "page" : null) }, () => t(name)),
  );
  return h("nav", { "aria-label": "pages" }, links);
}

/** Asks for the trace of what is in the input, whenever that or the model changes. */
function follow() {
  let turn = 0;
  effect(() => {
    const [model, meta] = [state.model.value, state.meta.value];
    const given = input();
    if (!given || !meta || !meta.models.length) {
      state.trace.value = null;
      return;
    }
    turn += 1;
    const mine = turn;
    state.status.value = t("loading");
    const name = model || (meta.models.length ? meta.models[0].name : null);
    post("/api/v1/traces", { model: name, ...given }).then(
      (found) => {
        if (mine !== turn) return;
        state.trace.value = found;
        state.status.value = [`${t("answer")}: ${found.output}`, ...found.warnings].join(" · ");
      },
      (error) => {
        if (mine !== turn) return;
        state.trace.value = null;
        state.status.value = error.message;
      },
    );
  });
}

/** The input as a request has it; null where there is none. */
function input() {
  const [upload, example, text] = [state.upload.value, state.example.value, state.text.value];
  if (upload) return { file: upload };
  if (example >= 0) return { example };
  return text ? { text } : null;
}

/** @param {HTMLElement} main */
function pages(main) {
  effect(() => {
    const name = /** @type {any} */ (PAGES)[state.page.value] || "home";
    let alive = true;
    let end = () => {};
    import(`./pages/${name}.js`).then((module) => {
      if (!alive) return;
      fill(main);
      end = module.mount(main);
    });
    return () => {
      alive = false;
      end();
    };
  });
}

const MOVES = /** @type {Record<string, [number, number]>} */ ({
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
});

/** @param {KeyboardEvent} event */
function pressed(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  const group = state.chosen();
  const wrap = (/** @type {number} */ value, /** @type {number} */ count) => (value + count) % count;
  if (event.key === "/") {
    event.preventDefault();
    /** @type {HTMLElement} */ (document.querySelector("#input")).focus();
  } else if (event.key === "Escape") {
    state.query.value = -1;
    state.key.value = -1;
  } else if (event.key === "v") state.view.value = state.VIEWS[(state.VIEWS.indexOf(state.view.value) + 1) % state.VIEWS.length];
  else if (event.key === "n") state.scale.value = { sqrt: "linear", linear: "log", log: "sqrt" }[state.scale.value] || "sqrt";
  else if (!group) return;
  else if (event.key === "[") state.layer.value = wrap(state.layer.value - 1, group.layers.length);
  else if (event.key === "]") state.layer.value = wrap(state.layer.value + 1, group.layers.length);
  else if (event.key === ",") state.head.value = wrap(state.head.value - 1, group.heads);
  else if (event.key === ".") state.head.value = wrap(state.head.value + 1, group.heads);
  else if (MOVES[event.key]) move(event, group);
}

/** Moves the locked cell. @param {KeyboardEvent} event @param {state.Group} group */
function move(event, group) {
  const trace = state.trace.peek();
  if (!trace || state.page.peek() !== "attend" || state.view.peek() !== "heat") return;
  event.preventDefault();
  const far = event.shiftKey ? 10 : 1;
  const within = (/** @type {number} */ value, /** @type {number} */ count) => Math.max(0, Math.min(count - 1, value));
  const [down, across] = MOVES[event.key];
  const q = within(state.query.peek() + far * down, group.queries.length);
  const k = within(state.key.peek() + far * across, group.keys.length);
  const { layer, head } = state.place(group);
  getNumbers(`/api/v1/traces/${trace.trace_id}/matrix?${asked({ layer, head })}`).then(
    (found) => lock(q, k, found.data, group),
    (error) => {
      state.status.value = error.message;
    },
  );
}

async function begin() {
  const main = h("main", { id: "main", tabindex: -1 });
  const line = h("p", { class: "status", role: "status", "aria-live": "polite" }, () => state.status.value);
  fill(/** @type {Element} */ (document.querySelector("#app")), bar(), rail(), main, line);
  coloured();
  system.addEventListener("change", coloured);
  state.followAddress();
  effect(() => {
    document.documentElement.lang = state.language.value === "zh" ? "zh-Hans" : "en";
  });
  try {
    const [meta, ramps] = await Promise.all([getJson("/api/v1/meta"), getJson("/api/v1/ramps")]);
    setRamps(ramps);
    state.meta.value = meta;
  } catch (error) {
    state.status.value = error instanceof Refused ? error.message : String(error);
    return;
  }
  follow();
  pages(main);
  document.addEventListener("keydown", pressed);
  document.documentElement.dataset.shell = "ready";
}

begin();
