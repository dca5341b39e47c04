// @ts-check
/** What a page holds that was saved as one file: answers that it would otherwise ask a server for. */

import { named } from "./keeping.js";

/** @typedef {{ text?: string, base64?: string }} Answer */
/**
 * `answers` are those to what a page asked for, by address; the others are of the weights of a trace, all of them.
 * @typedef {{ page: string, address: string, meta: any, trace: any, ramps: Record<string, any>, answers:
 * Record<string, Answer>, small: Record<string, Record<string, { summary: any, thumbs: string }>>, matrix:
 * Record<string, string[]>, masks: Record<string, string[]>, rollout: Record<string, string>, sound: string | null }}
 * Held
 */

const EMPTY = {
  page: "attend",
  address: "",
  meta: null,
  answers: {},
  small: {},
  matrix: {},
  masks: {},
  rollout: {},
  sound: null,
};

/** @type {Held | null} */
let held = null;

/** Null in a page that a server sends. */
export function inside() {
  const node = document.querySelector("script#answers");
  if (!held && node) held = { ...EMPTY, ...JSON.parse(node.textContent || "") };
  return held;
}

/**
 * The answer to an address, as a server would give it; null where there is none in the page.
 * @param {Held} from @param {string} path @param {string} [body] as it would be sent
 */
export function answered(from, path, body) {
  const answer = from.answers[body === undefined ? path : named(path, JSON.parse(body))];
  if (answer) return new Response(answer.base64 === undefined ? answer.text : bytes(answer.base64));
  const [place, rest] = path.split("?");
  const asked = new URLSearchParams(rest);
  const name = place.slice(place.lastIndexOf("/") + 1);
  const group = asked.get("group") || "";
  const small = (from.small[group] || {})[`${asked.get("merged") || ""}/${asked.get("special") || ""}`];
  if (name === "summary" && small) return new Response(JSON.stringify(small.summary));
  if (name === "thumbs" && small) return new Response(bytes(small.thumbs));
  if (name === "rollout" && from.rollout[group]) return new Response(bytes(from.rollout[group]));
  if (name === "sound" && from.sound) return new Response(bytes(from.sound));
  const found = name === "matrix" ? ofHead(from, asked) : null;
  return found ? new Response(bytes(found)) : null;
}

/** The weights of a head, or what its mask forbids. @param {Held} from @param {URLSearchParams} asked */
function ofHead(from, asked) {
  const [layer, head] = [asked.get("layer") || "", Number(asked.get("head"))];
  if (!asked.get("stage")) return (from.matrix[layer] || [])[head];
  const masks = from.masks[layer] || [];
  // one mask may be that of all heads
  return masks[head] || masks[0];
}

/** @param {string} text in base64 */
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
