// @ts-check
/** What a page has asked for since it was opened, so that it can be kept with the page. */

/** @type {Set<string>} */
const asked = new Set();
/** @type {Map<string, string>} */
const told = new Map();

/** What a page that was saved calls a question with a body. @param {string} path @param {any} body */
export const named = (path, body) => `${path} ${JSON.stringify(body)}`;

/** Nothing of another page, or of another trace, is kept with this one. */
export function forget() {
  asked.clear();
  told.clear();
}

/** Something is asked for; it can be asked for again. @param {string} path */
export const note = (path) => {
  asked.add(path);
};

/** An answer to a body, which is kept as it came. @param {string} path @param {any} body @param {string} text */
export const noteAnswer = (path, body, text) => {
  told.set(named(path, body), text);
};

/** The addresses, the latest first, and the answers to bodies. */
export const noted = () => ({ paths: [...asked].reverse(), answers: new Map(told) });
