// @ts-check
/** The shell: what is asked for above, pages at the side, one selection and its address for all of them. */

import { Refused, getJson, post } from "./api.js";
import { setRamps } from "./core/color.js";
import { read } from "./core/edits.js";
import { fill, h } from "./dom.js";
import { controls, followTheme, foot } from "./frame.js";
import { forget } from "./keeping.js";
import { pressed } from "./keys.js";
import * as state from "./state.js";
import { effect, signal } from "./store.js";
import { t } from "./strings.js";

const PAGES = {
  "": "home",
  attend: "attend",
  trace: "trace",
  translate: "translate",
  vision: "vision",
  graph: "graph",
  positions: "positions",
  compare: "compare",
  film: "film",
};
/** Pages that are not saved as they are: one shows nothing, of one all weights are saved. */
const UNKEPT = new Set(["", "attend"]);
/** Pages that show no trace; those that take no input. */
const [UNTRACED, ASKLESS] = [new Set(["translate", "positions"]), new Set(["positions"])];
/** Pages that show the answer themselves. */
const ANSWERED = new Set(["attend", "trace", "compare", "graph", "vision", "translate", "film"]);
/** Pages that warn beside the input. */
const WARNED = new Set(["attend", "graph", "vision"]);

/** Pages on which files stand in a list. */
const LISTING = new Set(["attend", "vision"]);

/** Whether no input is typed: a film has its own, files are chosen or, where there are none by number, sent. */
const untyped = () =>
  state.page.value === "film" || (state.readsFiles() && (LISTING.has(state.page.value) || !state.chosenRun().trained));

const noModels = () => Boolean(state.meta.value) && !state.meta.value.models.length;

/** The model and its input. */
function ask() {
  const input = h("input", {
    id: "input",
    type: "text",
    autocomplete: "off",
    "aria-label": () => t("input"),
    hidden: untyped,
    placeholder: () => t(`type_${state.readsFiles() ? "number" : state.reads() || "text"}`),
    value: () => (state.example.value < 0 ? state.text.value : named()),
  });
  // what is typed is the number of a file, of anything else the input itself
  const named = () => (state.readsFiles() ? String(state.example.value) : (state.trace.value?.source ?? ""));
  const look = (/** @type {Event} */ event) => {
    event.preventDefault();
    // an example stays one, with what its data says of it; a field keeps no line breaks
    if (state.example.value < 0 || input.value !== named().replace(/[\r\n]/g, "")) state.type(input.value);
    if (!state.page.value || state.lacks(state.page.value)) state.page.value = state.best();
  };
  const models = h("select", { "aria-label": () => t("model"), onchange: () => state.pick(models.value) });
  effect(() => {
    const all = state.meta.value ? state.meta.value.models : [];
    fill(
      models,
      all.map((/** @type {any} */ one) => h("option", { value: one.name }, one.name)),
    );
    // a name that the address has wrong stands there, so that no other run seems chosen
    if (state.strays())
      models.prepend(h("option", { value: state.model.value, disabled: true }, `${state.model.value} ?`));
    if (state.model.value) models.value = state.model.value;
  });
  return h(
    "form",
    { role: "search", onsubmit: look, hidden: () => ASKLESS.has(state.page.value) || noModels() },
    models,
    input,
    template(),
    h("button", { type: "submit", class: "main", hidden: untyped }, () => t("look")),
  );
}

/** Whether the model's chat template writes what is typed, where it has one. */
function template() {
  const box = h("input", {
    type: "checkbox",
    id: "chat",
    onchange: () => (state.plain.value = box.checked ? "" : "1"),
  });
  effect(() => {
    box.checked = !state.plain.value;
  });
  const title = () => t("chat_note");
  return h("label", { class: "chat", hidden: () => !state.chats(), title }, box, " ", () => t("chat"));
}

/** A button that saves the page, where that is one that is saved so. */
function keep() {
  const named = () => `${t("save")} HTML: ${t("savedPage")}`;
  const save = () => import("./views/page_file.js").then((file) => file.save());
  return h(
    "button",
    {
      class: "plain keeps",
      hidden: () => UNKEPT.has(state.page.value),
      onclick: save,
      title: named,
      "aria-label": named,
    },
    "↓ HTML",
  );
}

/** The top bar: pages, what is saved, theme, keys, language. */
function bar() {
  return h("header", {}, h("a", { class: "brand", href: "#/" }, "Headwise"), rail(), keep(), controls());
}

/** The first stop of the keyboard: to the map where there is one. @param {HTMLElement} main */
function skip(main) {
  const go = (/** @type {Event} */ event) => {
    // a fragment of the address is a page here
    event.preventDefault();
    /** @type {HTMLElement} */ (main.querySelector("canvas.heat[tabindex]") || main).focus();
  };
  return h("a", { class: "skip", href: "#main", onclick: go }, () => t("skip"));
}

/** The pages there are. */
function rail() {
  const links = Object.entries(PAGES).map(([path, name]) =>
    h(
      "a",
      {
        href: () => state.address(path),
        "aria-current": () => (state.page.value === path ? "page" : null),
        class: () => state.lacks(path) && "lacking",
        title: () => state.lacks(path) && t(`needs_${state.lacks(path)}`),
      },
      () => t(name),
    ),
  );
  const bar = h("nav", { "aria-label": "pages" }, links);
  effect(() => {
    const chosen = links[Object.keys(PAGES).indexOf(state.page.value)];
    // in the middle of a bar that is wider than the screen, once it has its place and its words
    const middle = () => chosen.offsetLeft - bar.offsetLeft - (bar.clientWidth - chosen.offsetWidth) / 2;
    if (chosen) requestAnimationFrame(() => (bar.scrollLeft = middle()));
  });
  return bar;
}

/** What is shown is of another input than the one that is asked for. @param {boolean} on */
const busy = (on) => document.documentElement.toggleAttribute("data-busy", on);

/** Asks for the trace of what is in the input, whenever that or the model changes. */
function follow() {
  let turn = 0;
  let asked = "";
  effect(() => {
    if (UNTRACED.has(state.page.value)) return;
    const [model, meta, edits] = [state.model.value, state.meta.value, read(state.edits.value)];
    const step = state.checkpoint.value;
    const asks = state.asked();
    if (meta && state.sample.value && !state.upload.value)
      import("./views/samples.js").then((view) => view.draw(state.sample.value));
    if (!asks || !meta || !meta.models.length || state.strays()) {
      // what was asked before may still come
      turn += 1;
      if (asked) state.status.value = "";
      asked = "";
      busy(false);
      state.problem.value = null;
      state.trace.value = null;
      return;
    }
    const wanted = JSON.stringify([model, asks, edits, step]);
    if (wanted === asked) return;
    asked = wanted;
    turn += 1;
    const mine = turn;
    state.status.value = t("loading");
    state.problem.value = null;
    busy(true);
    const name = model || (meta.models.length ? meta.models[0].name : null);
    // a comparison has two
    if (state.page.peek() !== "compare") forget();
    post("/api/v1/traces", { model: step < 0 ? name : `${name}@${step}`, ...asks, options: { edits } }).then(
      async (given) => {
        const named = "file" in asks || (/\[\d+\]$/.test(given.source) && "example" in asks) ? "naming" : "";
        const view = given.places?.kind === "series" ? "series" : named;
        const found = view ? (await import(`./views/${view}.js`)).worded(given, asks.example) : given;
        if (mine !== turn) return;
        busy(false);
        state.trace.value = found;
        import("./recent.js").then(({ remember }) =>
          remember(found.model.replace(/@\d+$/, ""), /** @type {any} */ (asks), found),
        );
      },
      (error) => {
        if (mine !== turn) return;
        busy(false);
        state.trace.value = null;
        state.problem.value = error;
        // the page says why
        state.status.value = "";
      },
    );
  });
}

/** Says at the foot what the page does not say itself: the answer, and warnings about the input. */
function footed() {
  effect(() => {
    void state.language.value;
    const [found, page] = [state.trace.value, state.page.value];
    if (!found || (page === "translate" && !state.lacks(page))) return;
    const none = UNTRACED.has(page);
    const answer = none || ANSWERED.has(page) ? [] : [`${t("answer")}: ${found.output}`];
    const tell = (/** @type {string[]} */ ...notes) => (state.status.value = [...answer, ...notes].join(" · "));
    if (none || !found.warnings.length || WARNED.has(page)) tell();
    else
      import("./words/refusals.js").then(({ noted }) => {
        if (found === state.trace.peek() && page === state.page.peek()) tell(noted(found.warnings));
      });
  });
}

/** @type {Map<string, Promise<any>>} */
const sheets = new Map();

/** When a style sheet has come. @param {string} name */
function sheet(name) {
  const come =
    sheets.get(name) ||
    new Promise((done) => {
      const href = `/static/css/${name}.css`;
      document.head.append(h("link", { rel: "stylesheet", href, onload: done, onerror: done }));
    });
  sheets.set(name, come);
  return come;
}

/** @param {HTMLElement} main */
function pages(main) {
  const strays = signal(false);
  effect(() => void (strays.value = state.strays()));
  effect(() => {
    const name = /** @type {any} */ (PAGES)[state.page.value] || "home";
    const view = strays.value && !ASKLESS.has(name) ? "views/unknown_run" : `pages/${name}`;
    let alive = true;
    let end = () => {};
    // its cards are those of other pages too
    Promise.all([import(`./${view}.js`), sheet(name), name === "home" && sheet("cards")]).then(([module]) => {
      if (!alive) return;
      fill(main);
      forget();
      end = module.mount(main);
    });
    return () => {
      alive = false;
      delete document.documentElement.dataset.ready;
      end();
    };
  });
}

async function begin() {
  const main = h("main", { id: "main", tabindex: -1 });
  fill(/** @type {Element} */ (document.querySelector("#app")), skip(main), bar(), ask(), main, foot());
  followTheme();
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
  footed();
  pages(main);
  document.addEventListener("keydown", pressed);
  document.documentElement.dataset.shell = "ready";
}

begin();
