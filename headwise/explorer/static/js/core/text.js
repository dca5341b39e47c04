// @ts-check
/** Numbers and tokens as people read them. */

/**
 * Sums of float32 differ from 1 by as much: so near to a bound a number has reached it, as in `headwise.labels`.
 */
const NOISE = 1e-6;

/** Three significant digits; 1 only for what is 1. @param {number} value */
export function number(value) {
  if (value === -Infinity) return "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  // a power of ten says no more than that it is next to nothing
  if (size < 1e-5) return value < 0 ? ">-0.00001" : "<0.00001";
  if (size >= 1e5) return value.toExponential(2);
  return beside(value, String(Number(value.toPrecision(3))), 3, 1);
}

/** So many decimals; 0 and 1 only for what is 0 and 1. @param {number} value @param {number} places */
export const decimals = (value, places) => beside(value, value.toFixed(places), places, 1);

/** Without a zero before the point. @param {string} text */
export const bare = (text) => text.replace(/(^|[^\d])0\./, "$1.");

/**
 * A weight in a cell: two decimals, "·" for what they do not show; 0 and 1 only for what is 0 and 1.
 * @param {number} weight
 */
export function share(weight) {
  const size = Math.abs(weight);
  if (size > 0 && size < 0.005) return "·";
  if (size === 0 || size === 1) return String(weight).replace("-", "−");
  const sign = weight < 0 ? "−" : "";
  if (size > 0.995 && size < 1) return sign ? "<−.99" : ">.99";
  return `${sign}${bare(size.toFixed(2))}`;
}

/** @param {number} score */
export const scored = (score) =>
  Math.abs(score) < 0.05 ? "0.0" : score.toFixed(Math.abs(score) < 99.95 ? 1 : 0).replace("-", "−");

/** A share in percent; 0 % and 100 % only for none and all. @param {number} share of 1 @param {number} places */
export function percent(share, places) {
  const whole = share === 0 || Math.abs(share - 1) < NOISE;
  return `${whole ? Math.round(100 * share) : beside(100 * share, (100 * share).toFixed(places), places, 100)} %`;
}

/** A number and its sign of percent in one line. @param {string} text */
export const together = (text) => text.replaceAll(" %", "\u00a0%");

/**
 * A rounded number; where it reads as 0 or as the bound and is not, on which side of the last step it is, as in
 * ">0.999".
 * @param {number} value @param {string} text @param {number} places @param {number} bound
 */
function beside(value, text, places, bound) {
  const size = Math.abs(value);
  const [step, read] = [10 ** -places, Math.abs(Number(text))];
  const below = read === 0 && size > 0;
  if (!below && !(read === bound && size < bound * (1 - NOISE))) return text;
  const limit = (below ? step : bound - step).toFixed(places);
  return value < 0 ? `${below ? ">" : "<"}-${limit}` : `${below ? "<" : ">"}${limit}`;
}

/**
 * What has no picture, or turns what stands around it, as in `headwise.labels`; joiners of emoji stay.
 */
const HIDDEN = /[\p{Cc}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?![\u200c\u200d])\p{Cf}/gu;
/** Letters that are read from right to left. */
const LEFTWARDS = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** A token with its white space made visible; a time with its unit is none. @param {string} token */
export const shown = (token) => alone(visible(token));

/** Letters, digits and marks of ASCII need no look at classes of letters. @param {string} token */
const visible = (token) =>
  /^([!-~]+|[\d.]+ s)$/.test(token)
    ? token
    : token
        // bytes that are no letters say nothing one by one
        .replace(/\ufffd+/g, "\ufffd")
        .replace(/\n/g, "↵")
        .replace(/\t/g, "⇥")
        .replace(/[ \u2581]/g, "␣")
        .replace(HIDDEN, escaped) || "∅";

/** A text whose control characters are seen, its spaces and lines as they are. @param {string} text */
export const legible = (text) =>
  text.replace(/\ufffd+/g, "\ufffd").replace(HIDDEN, (letter) => (letter === "\n" ? letter : visible(letter)));

/** @param {string} letter */
function escaped(letter) {
  if (letter === "\r") return "\\r";
  const code = Number(letter.codePointAt(0));
  const [mark, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
  return `\\${mark}${code.toString(16).padStart(digits, "0")}`;
}

/** Letters that would turn the number behind them stand by themselves. @param {string} text */
const alone = (text) => (LEFTWARDS.test(text) ? `\u2068${text}\u2069` : text);

/** A token in at most so many characters. @param {string} token @param {number} limit */
export function cut(token, limit) {
  const letters = [...visible(token)];
  return alone(letters.length <= limit ? letters.join("") : `${letters.slice(0, limit - 1).join("")}…`);
}

/**
 * Names of tokens in bars, each with its position, counted from 1, where another one is written the same.
 * @param {string[]} labels @param {(label: string) => string} write @param {number} [since] positions before the first
 */
export const apart =
  (labels, write, since = 0) =>
  (/** @type {number} */ at) =>
    labels.indexOf(labels[at]) === labels.lastIndexOf(labels[at])
      ? write(labels[at])
      : `${write(labels[at])} (${at + 1 + since})`;
