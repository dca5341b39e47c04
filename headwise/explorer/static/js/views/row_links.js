// @ts-check
/** One row of a head that is too large for all of them: links to the keys that it attends to, or its text. */

import { getJson, query } from "../api.js";
import { COLOURED } from "../core/color.js";
import { apart, cut, percent } from "../core/text.js";
import { fill, h, strong } from "../dom.js";
import { effect } from "../store.js";
import * as state from "../state.js";
import { learn, phrase, t } from "../strings.js";
import { headName, headTitle } from "../titles.js";
import { WORDS } from "../words/row_links.js";
import { spelled } from "./spelled.js";
import { draw, shownHeads, withHeads } from "./links.js";
import { SOME } from "./part.js";
import * as reading from "./reading.js";
import { Rows, opening, openingRow } from "./rows.js";
import * as saving from "./saving.js";

learn(WORDS);

/** Letters of a token in a sentence. */
const LETTERS = 16;

/** @typedef {import("./links.js").Heads} Heads */

/**
 * @param {HTMLElement} node @param {HTMLElement} read where the chosen cell is read
 * @param {state.Trace} trace @param {state.Group} group @param {() => boolean} alive
 * @param {string} why the view that was asked for cannot be had; "" for links and text
 */
export async function mount(node, read, trace, group, alive, why) {
  const { at, layer, head } = state.place(group);
  const path = `/api/v1/traces/${trace.trace_id}`;
  const title = headTitle(group, at, head);
  const view = await (!why && state.view.peek() === "text" ? textOf(group, title) : linksOf(trace, group, title));
  const heads = view.heads.map((number) => ({
    number,
    rows: new Rows(path, layer, number),
  }));
  const rows = heads.find(({ number }) => number === head)?.rows || new Rows(path, layer, head);
  state.strongest.value = await opening(rows, trace, async () =>
    isGraph(trace, group)
      ? (await getJson(`${path}/overview?${query({ layer, head })}`)).largest
      : openingRow(rows, group),
  );
  if (!alive()) return () => {};
  const body = h("div");
  let [end, latest] = [() => {}, -1];
  const redraw = async (/** @type {number} */ q) => {
    latest = q;
    const all = await Promise.all(heads.map(async ({ number, rows }) => ({ number, row: await rows.load(q) })));
    if (!alive() || latest !== q) return;
    const focused = body.contains(document.activeElement);
    end();
    fill(body);
    end = view.draw(body, q, all);
    if (focused) /** @type {HTMLElement | null} */ (body.querySelector(".token[tabindex='0']"))?.focus();
  };
  fill(
    node,
    h("div", { class: "heading" }, h("h2", { title: layer }, view.title)),
    why ? h("p", { class: "unshown" }, why) : "",
    view.line,
    body,
    field(trace, group),
    saving.picture(`${view.name} ${title}`, async () => view.picture(await import("./pictures.js"))),
  );
  fill(read);
  await redraw(state.cell().q);
  if (!alive()) return () => end();
  const ends = [
    reading.mount(read, { group, row: rows.at }, trace, group),
    effect(() => {
      const { q } = state.cell();
      if (q < 0 || q === latest) return;
      redraw(q).catch((error) => {
        latest = -1;
        state.failed(error);
      });
    }),
  ];
  const shown = state.view.value;
  document.documentElement.dataset.ready = why ? `${group.name}/${shown}/none` : `${group.name}/${at}/${head}/${shown}`;
  return () => {
    ends.forEach((one) => one());
    end();
  };
}

/** A row in each of the heads that are shown @typedef {{ number: number, row: Float32Array }[]} Drawn */

/** A row over its text, in the chosen head. @param {state.Group} group @param {string} title */
async function textOf(group, title) {
  const rowText = await import("./row_text.js");
  const { head } = state.place(group);
  /** @type {{ from: number, head: Heads | null }} */
  const part = { from: -1, head: null };
  return {
    name: "text",
    title,
    heads: [head],
    line: "",
    draw: (/** @type {HTMLElement} */ body, /** @type {number} */ q, /** @type {Drawn} */ [{ row }]) =>
      rowText.mount(body, { group, q, head, weights: row, press: (k) => to(group, q, k) }, title, part),
    picture: (/** @type {any} */ pictures) => pictures.text(part.head, { q: 0, k: -1 }),
  };
}

/** A row as links, in all heads that are shown. @param {state.Trace} trace @param {state.Group} group
 * @param {string} title */
async function linksOf(trace, group, title) {
  const line = h("p", { class: "note" });
  /** @type {Heads | null} */
  let shown = null;
  return {
    name: "links",
    title: title + withHeads(group),
    heads: shownHeads(group),
    line,
    draw: (/** @type {HTMLElement} */ body, /** @type {number} */ q, /** @type {Drawn} */ all) => {
      const drawn = rowOf(trace, group, q, all);
      shown = { ...drawn.head, title };
      fill(line, sentence(trace, group, q, drawn));
      return draw(body, shown);
    },
    picture: (/** @type {any} */ pictures) => pictures.links(shown),
  };
}

/**
 * A row as a head of one query: of many keys those with the largest weights of the chosen head. Nodes
 * stand by their weights, tokens in their order.
 * @param {state.Trace} trace @param {state.Group} group @param {number} q @param {Drawn} all
 */
function rowOf(trace, group, q, all) {
  const { head } = state.place(group);
  const nodes = isGraph(trace, group);
  const { row } = all.find(({ number }) => number === head) || all[0];
  const open = Array.from(row.keys()).filter((k) => row[k] > -Infinity);
  const kept = open.sort((one, two) => row[two] - row[one]).slice(0, SOME);
  const share = kept.reduce((sum, k) => sum + row[k], 0);
  if (!nodes) kept.sort((one, two) => one - two);
  const take = (/** @type {Float32Array} */ one) => Float32Array.from(kept, (k) => Math.max(0, one[k]));
  return {
    open: open.length,
    share,
    /** @type {Heads} */
    head: {
      title: "",
      weights: take(row),
      coloured: all.map((one) => ({ head: one.number, place: one.number % COLOURED, weights: take(one.row) })),
      count: group.heads,
      chosen: head,
      rows: [[q]],
      columns: kept.map((k) => [k]),
      group: { ...group, queries: [group.queries[q]], keys: kept.map((k) => group.keys[k]) },
      part: nodes ? { q: null, k: null } : { q: [q], k: kept },
      press: (side, place) => to(group, q, side === "k" ? kept[place] : -1),
    },
  };
}

/**
 * A click on a key leads to its row, where it has one.
 * @param {state.Group} group @param {number} q @param {number} k
 */
const to = (group, q, k) => state.lock(k >= 0 && state.oneSequence(group) ? { q: k, k: -1 } : { q, k });

/** Whether the tokens of a group are nodes. @param {state.Trace} trace @param {state.Group} group */
const isGraph = (trace, group) => spelled(trace, group).keys.kind === "nodes";

/**
 * What is drawn: which row, how many of its keys, and how to see another.
 * @param {state.Trace} trace @param {state.Group} group @param {number} q @param {ReturnType<typeof rowOf>} drawn
 */
function sentence(trace, group, q, { open, share, head }) {
  const count = head.group.keys.length;
  const nodes = isGraph(trace, group);
  const name = strong(apart(group.queries, (label) => cut(label, LETTERS))(q));
  const kind = `row_${nodes ? "nodes" : "keys"}${count < open ? "_some" : ""}`;
  const values = [open, group.keys.length].map((number) => number.toLocaleString("en"));
  return phrase(kind, name, values[0], count, percent(share, 0), values[1], headName(head.chosen || 0));
}

/**
 * Where another row is asked for: by its node, or by its position.
 * @param {state.Trace} trace @param {state.Group} group
 */
function field(trace, group) {
  const nodes = isGraph(trace, group);
  const written = () => {
    const { q } = state.cell();
    return q < 0 ? "" : nodes ? group.queries[q] : String(q + 1);
  };
  const input = h("input", { type: "text", value: written, spellcheck: "false" });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const typed = input.value.trim();
    const q = nodes ? group.queries.indexOf(typed) : Number(typed) - 1;
    if (q >= 0 && q < group.queries.length && Number.isInteger(q)) state.lock({ q, k: -1 });
    else state.status.value = t(nodes ? "no_row_node" : "no_row_position", typed, group.queries.length);
  };
  return h(
    "form",
    { class: "row-asked", onsubmit: submit },
    h("label", {}, t(nodes ? "row_node" : "row_position"), " ", input),
    h("button", { class: "small" }, t("show_row")),
  );
}
