// @ts-check
/** Numbers of a computation as they stand in columns: fixed decimals, a true minus, "?" for NaN. */

const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** @param {string} text */
export const minus = (text) => text.replace("-", "−").replace("NaN", "?");

/** So many decimals; what they do not show is 0. @param {number} value @param {number} places */
export function fixed(value, places) {
  if (value === -Infinity) return "−∞";
  return minus((Math.abs(value) < 0.5 * 10 ** -places ? 0 : value).toFixed(places));
}

/** So many significant digits; very small and very large numbers with a power of ten. @param {number} value */
export function significant(value, digits = 4) {
  if (value === -Infinity) return "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (!(size < 1e-4 || size >= 1e6)) {
    const text = value.toPrecision(digits);
    return minus(text.includes("e") ? value.toFixed(0) : text);
  }
  const [mantissa, power] = value.toExponential(digits - 1).split("e");
  const raised = [...String(Number(power))].map((sign) => (sign === "-" ? "⁻" : RAISED[Number(sign)]));
  return `${minus(mantissa)}×10${raised.join("")}`;
}

/** A whole number as it is, else four significant digits. @param {number} value */
export const short = (value) =>
  Number.isInteger(value) && Math.abs(value) < 1e4 ? minus(String(value)) : significant(value);

/** A weight without its zero, "·" where it rounds to nothing, 0 and 1 only if exact. @param {number} weight */
export function weight(weight, places = 3) {
  const size = Math.abs(weight);
  const sign = weight < 0 ? "−" : "";
  if (size === 0 || size === 1) return `${size ? sign : ""}${size}`;
  if (size < 0.5 * 10 ** -places) return "·";
  if (size < 1 && size >= 1 - 0.5 * 10 ** -places) return `${sign}>${(1 - 10 ** -places).toFixed(places).slice(1)}`;
  return sign + minus(size.toFixed(places).replace(/^0/, ""));
}

/**
 * The decimals with which the numbers of a matrix are told apart: none for whole ones, else two or more.
 * @param {number[][]} rows
 */
export function placesOf(rows) {
  const all = rows.flat().filter(Number.isFinite);
  if (all.every((value) => Number.isInteger(value) && Math.abs(value) < 1e4)) return 0;
  const top = Math.max(...all.map(Math.abs));
  return Math.max(0, Math.min(6, top >= 1000 ? 1 : top >= 1 ? 2 : 2 - Math.floor(Math.log10(top))));
}
