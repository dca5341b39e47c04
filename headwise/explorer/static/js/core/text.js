// @ts-check
/** Numbers and tokens as people read them. */

/** Three significant digits. @param {number} value */
export function number(value) {
  if (value === -Infinity) return "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e5 ? value.toExponential(2) : String(Number(value.toPrecision(3)));
}

/** What has no picture of its own, or turns what stands around it, as `headwise.labels` has it; joiners of emoji stay. */
const HIDDEN = /[\p{Cc}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/gu;
/** Letters that are read from right to left. */
const LEFTWARDS = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** A token with its white space made visible; a time with its unit is none. @param {string} token */
export const shown = (token) => apart(visible(token));

/** @param {string} token */
const visible = (token) =>
  /^[\d.]+ s$/.test(token) ? token : token.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/ /g, "␣").replace(HIDDEN, escaped) || "∅";

/** @param {string} letter */
function escaped(letter) {
  if (letter === "\r") return "\\r";
  const code = Number(letter.codePointAt(0));
  const [mark, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
  return `\\${mark}${code.toString(16).padStart(digits, "0")}`;
}

/** Letters that would turn the number behind them stand by themselves. @param {string} text */
const apart = (text) => (LEFTWARDS.test(text) ? `\u2068${text}\u2069` : text);

/** A token in at most so many characters. @param {string} token @param {number} limit */
export function cut(token, limit) {
  const letters = [...visible(token)];
  return apart(letters.length <= limit ? letters.join("") : `${letters.slice(0, limit - 1).join("")}…`);
}
