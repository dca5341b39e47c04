// @ts-check
/** What the pages ask of the server, once each: answers are kept within a number of bytes. */

import { answered, inside } from "./inside.js";
import { note, noteAnswer } from "./keeping.js";

/** @typedef {Promise<import("./core/npy.js").Numbers>} Numbers */

const LIMIT = 64 * 2 ** 20;
/** @type {Map<string, { bytes: number, found: Promise<any> }>} */
const kept = new Map();
let bytes = 0;
/** Requests that are not answered yet. */
let waiting = 0;

/** Ends what can wait and is under way; the head that it is of. */
let [idle, head] = [new AbortController(), ""];

/**
 * Numbers that can wait: asked for when nothing else is, given up where something is, and asked for again; null where
 * nobody wants them any more.
 * @param {string} path @param {() => boolean} wanted
 */
export async function getIdle(path, wanted) {
  for (;;) {
    while (waiting) await new Promise((done) => setTimeout(done, 50));
    if (!wanted()) return null;
    const { signal } = (idle = new AbortController());
    head = String(path.match(/layer=.*head=\d+/));
    try {
      const found = await getNumbers(path, signal);
      idle = new AbortController();
      return found;
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}

/** A request that was refused; `message` says why and what to do, `kind` tells some apart. */
export class Refused extends Error {
  /** @param {number} status @param {string} message @param {string} [kind] */
  constructor(status, message, kind) {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

/** @param {string} path @param {any} body @param {AbortSignal} [signal] to abort it ends the work of the server too */
export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const options = { method: "POST", headers, body: JSON.stringify(body), signal };
  const text = await (await asked(path, options)).text();
  noteAnswer(path, body, text);
  return JSON.parse(text);
}

/** To abort the signal ends the work of the server too. @param {string} path @param {AbortSignal} [signal] */
export const getJson = (path, signal) => once(path, async (answer) => answer.json(), signal);

/** What may be another thing the next time. @param {string} path */
export const getNow = async (path) => {
  note(path);
  return (await asked(path, {})).json();
};

/**
 * The worked examples need none, so what reads them comes with the first.
 * @param {string} path @param {AbortSignal} [signal] @returns {Numbers}
 */
export const getNumbers = (path, signal) => {
  const reader = import("./core/npy.js");
  return once(path, async (answer) => (await reader).parse(await answer.arrayBuffer()), signal);
};

/**
 * An answer as a saved page keeps it: text, or bytes in base64.
 * @param {string} path @returns {Promise<import("./inside.js").Answer>}
 */
export async function getRaw(path) {
  const answer = await asked(path, {});
  if (/json|html/.test(answer.headers.get("content-type") || "")) return { text: await answer.text() };
  const reader = new FileReader();
  const read = new Promise((done, failed) => {
    reader.onload = () => done(reader.result);
    reader.onerror = failed;
  });
  reader.readAsDataURL(await answer.blob());
  return { base64: String(await read).split(",")[1] };
}

/** A file that is saved rather than shown. @param {string} path */
export const getFile = async (path) => (await asked(path, {})).blob();

/** @param {Record<string, string | number>} values */
export const query = (values) => new URLSearchParams(/** @type {any} */ (values)).toString();

/** @param {string} path @param {(answer: Response) => Promise<any>} read @param {AbortSignal} [signal] */
function once(path, read, signal) {
  note(path);
  const known = kept.get(path);
  if (known) {
    kept.delete(path);
    kept.set(path, known);
    return known.found;
  }
  const entry = { bytes: 0, found: fetched(path, read, signal) };
  kept.set(path, entry);
  const forget = () => {
    if (kept.get(path) === entry && kept.delete(path)) bytes -= entry.bytes;
  };
  // who asks again does not get what was given up
  signal?.addEventListener("abort", forget, { once: true });
  entry.found.catch(forget);
  return entry.found;
}

/** @param {string} path @param {(answer: Response) => Promise<any>} read @param {AbortSignal} [signal] */
async function fetched(path, read, signal) {
  const answer = await asked(path, signal ? { signal } : {});
  const size = Number(answer.headers.get("content-length") || 0);
  const found = await read(answer);
  const entry = kept.get(path);
  // it may have had to go while it came
  if (!entry) return found;
  entry.bytes = size;
  bytes += size;
  for (const [name, one] of kept) {
    if (bytes <= LIMIT || name === path) break;
    kept.delete(name);
    bytes -= one.bytes;
  }
  return found;
}

/** @param {string} path @param {RequestInit} options */
async function asked(path, options) {
  const held = inside();
  if (held) {
    const kept = answered(held, path, /** @type {string | undefined} */ (options.body));
    if (!kept) throw await refused(404, "this file holds what its page showed; `headwise explore` shows the rest");
    return kept;
  }
  let answer;
  // the map of the same head takes up what is done
  if (options.signal !== idle.signal && !path.endsWith(`overview?${head}`)) idle.abort();
  waiting += 1;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (/** @type {any} */ (error).name === "AbortError") throw error;
    throw await refused(0, "the server does not answer; is `headwise explore` still running?");
  } finally {
    waiting -= 1;
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw await refused(answer.status, [told.detail || answer.statusText, told.hint].filter(Boolean).join("; "));
}

/** In the words of the page. @param {number} status @param {string} message */
async function refused(status, message) {
  // where the server is gone the words are not to be had either
  const words = await import("./words/refusals.js").catch(() => null);
  const chinese = document.documentElement.lang.startsWith("zh");
  return new Refused(status, ...(words ? words.worded(message, chinese) : /** @type {[string]} */ ([message])));
}

/**
 * Asks for JSON lines and tells each as it comes; to abort the signal ends the work of the server too.
 * @param {string} path @param {any} body @param {AbortSignal} signal @param {(line: any) => void} told
 */
export async function postLines(path, body, signal, told) {
  const headers = { "Content-Type": "application/json" };
  const answer = await asked(path, { method: "POST", headers, body: JSON.stringify(body), signal });
  const reader = /** @type {ReadableStream<Uint8Array>} */ (answer.body).getReader();
  const decoder = new TextDecoder();
  let [rest, whole] = ["", ""];
  for (;;) {
    const { done, value } = await reader.read();
    const part = decoder.decode(value, { stream: !done });
    rest += part;
    whole += part;
    const lines = rest.split("\n");
    rest = lines.pop() || "";
    for (const line of lines) told(JSON.parse(line));
    if (done) break;
  }
  noteAnswer(path, body, whole);
}
