// @ts-check
/** Elements from a tag, properties and children; functions among them follow the signals that they read. */

import { effect } from "./store.js";

/** What ends the effects that a node follows. @type {WeakMap<Node, (() => void)[]>} */
const followed = new WeakMap();

/** @param {Node} node @param {() => void} work */
export function follow(node, work) {
  const end = effect(work);
  followed.set(node, [...(followed.get(node) || []), end]);
}

/** Ends what a node and all within it follow. @param {Node} node */
function forget(node) {
  (followed.get(node) || []).forEach((end) => end());
  node.childNodes.forEach(forget);
}

/**
 * @param {string} tag
 * @param {Record<string, any>} [props] `on...` are listeners, `class` and attributes by name; functions are followed
 * @param {...any} kids strings become text, never markup @returns {any}
 */
export function h(tag, props = {}, ...kids) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (typeof value === "function") follow(node, () => put(node, name, value()));
    else put(node, name, value);
  }
  for (const kid of kids.flat()) add(node, kid);
  return node;
}

/**
 * Everything in a node replaced; what was in it follows no signal any more.
 * @param {Element} node @param {...any} kids
 */
export function fill(node, ...kids) {
  node.childNodes.forEach(forget);
  node.replaceChildren();
  for (const kid of kids.flat()) add(node, kid);
}

/** A name in a sentence, whichever way its letters run. @param {any} name */
export const strong = (name) => h("strong", {}, h("bdi", {}, name));

/**
 * Paints a canvas, and again when a signal that it reads or its size has changed.
 * @param {Element} canvas @param {() => void} paint
 */
export function repainted(canvas, paint) {
  const end = effect(paint);
  const resized = new ResizeObserver(() => paint());
  resized.observe(canvas);
  return () => {
    resized.disconnect();
    end();
  };
}

/** @param {any} node @param {string} name @param {any} value */
function put(node, name, value) {
  if (name === "value" || name === "checked") node[name] = value;
  else if (value === false || value === null || value === undefined) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : String(value));
}

/** @param {Element} node @param {any} kid */
function add(node, kid) {
  if (kid === null || kid === undefined || kid === false) return;
  if (typeof kid !== "function") {
    node.append(kid instanceof Node ? kid : String(kid));
    return;
  }
  const text = document.createTextNode("");
  node.append(text);
  follow(text, () => {
    text.data = String(kid() ?? "");
  });
}
