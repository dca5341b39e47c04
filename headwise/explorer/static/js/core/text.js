// @ts-check
/** Numbers and tokens as people read them. */

/** Three significant digits. @param {number} value */
export function number(value) {
  if (value === -Infinity) return "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e5 ? value.toExponential(2) : String(Number(value.toPrecision(3)));
}

/** A token with its white space made visible; a time with its unit is none. @param {string} token */
export const shown = (token) => (/^[\d.]+ s$/.test(token) ? token : visible(token));

/** @param {string} token */
const visible = (token) => token.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/ /g, "␣") || "∅";

/** A token in at most so many characters. @param {string} token @param {number} limit */
export function cut(token, limit) {
  const letters = [...shown(token)];
  return letters.length <= limit ? letters.join("") : `${letters.slice(0, limit - 1).join("")}…`;
}
