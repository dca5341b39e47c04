// @ts-check
/** Buttons and lists as one stop of the tabulator: arrows left and right go between them, up and down in a list. */

import { fill, h } from "../dom.js";

/** @param {HTMLElement} node */
const buttons = (node) => /** @type {HTMLElement[]} */ ([...node.querySelectorAll("button, select")]);

/** @param {HTMLElement} node @param {number} at */
function stop(node, at) {
  buttons(node).forEach((button, place) => (button.tabIndex = place === at ? 0 : -1));
}

/** @param {() => string} label @param {string} name of its class @param {...any} kids @returns {HTMLElement} */
export function toolbar(label, name, ...kids) {
  const node = h("div", { class: name, role: "toolbar", "aria-label": label });
  node.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const all = buttons(node);
    const at = (all.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + by + all.length) % all.length;
    stop(node, at);
    all[at].focus();
  });
  refill(node, ...kids);
  return node;
}

/** Other buttons in a toolbar; the focus stays at its place. @param {HTMLElement} node @param {...any} kids */
export function refill(node, ...kids) {
  const at = buttons(node).indexOf(/** @type {HTMLElement} */ (document.activeElement));
  fill(node, ...kids);
  const all = buttons(node);
  const chosen = all.findIndex((button) => button.getAttribute("aria-pressed") === "true");
  stop(node, Math.max(0, at < 0 ? chosen : Math.min(at, all.length - 1)));
  // where a row of them is cut, the pressed one is seen
  for (const button of all.filter((one) => one.getAttribute("aria-pressed") === "true")) {
    const row = /** @type {HTMLElement} */ (button.parentElement);
    row.scrollLeft = button.offsetLeft - row.offsetLeft - row.clientWidth + button.offsetWidth;
  }
  if (at >= 0) all[Math.min(at, all.length - 1)].focus();
}
