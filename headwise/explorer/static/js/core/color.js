// @ts-check
/** Numbers as colours: ramps of 256 entries that the server makes, and scales from a number to an entry. */

/** @type {Record<string, Uint8ClampedArray>} */
const ramps = {};

/** Red, green and blue of #rrggbb. @param {string} colour */
const parts = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

/** @param {Record<string, string[]>} given names and their 256 colours as #rrggbb */
export function setRamps(given) {
  for (const [name, colours] of Object.entries(given)) {
    const table = new Uint8ClampedArray(256 * 4);
    colours.forEach((colour, place) => {
      table.set([...parts(colour), 255], 4 * place);
    });
    ramps[name] = table;
  }
}

/** @param {string} name */
export const ramp = (name) => ramps[name];

/** How much of a picture the colours over it cover, from 0 to 1. */
export const STRENGTH = 0.75;

/** Heads and lines that have a colour of their own; beyond, position and label tell them apart. */
export const COLOURED = 8;

/** The colour of a line or a head, which stands out from the page. @param {number} at @param {boolean} dark */
export const lineColour = (at, dark) => colour(dark ? "lines dark" : "lines light", at % COLOURED);

/** The colour of letters on a colour of a ramp. @param {string} name @param {number} entry */
export const letters = (name, entry) => legible(Array.from(ramps[name].subarray(4 * entry, 4 * entry + 3)));

/** The colour of letters on #rrggbb. @param {string} colour */
export const lettersOn = (colour) => legible(parts(colour));

/** Black or white, whichever stands out more: 4.5 to 1 at least. @param {number[]} background */
function legible(background) {
  const [red, green, blue] = background.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const light = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  // (light + 0.05) / 0.05 is the contrast with black, 1.05 / (light + 0.05) with white
  return (light + 0.05) ** 2 > 1.05 * 0.05 ? "#000000" : "#ffffff";
}

/** @typedef {keyof typeof SCALES} Scale */

/** The share of the ramp, from 0 to 1, by scale. */
export const SCALES = {
  linear: (/** @type {number} */ share) => share,
  sqrt: (/** @type {number} */ share) => Math.sqrt(share),
  log: (/** @type {number} */ share) => (share <= 1e-4 ? 0 : 1 + Math.log10(share) / 4),
};

/**
 * The entry of each number in a ramp whose middle is zero, `top` its end. What is forbidden, minus infinity, is -1.
 * @param {ArrayLike<number>} values @param {number} top @param {keyof typeof SCALES} [scale]
 */
export function signed(values, top, scale = "linear") {
  const turn = SCALES[scale];
  return Int16Array.from(values, (value) => {
    if (value === -Infinity) return -1;
    const share = top > 0 ? Math.min(1, Math.abs(value) / top) : 0;
    return Math.round(127.5 + 127.5 * Math.sign(value) * turn(share));
  });
}

/** A colour of a ramp as a page writes it. @param {string} name @param {number} entry */
export function colour(name, entry) {
  const [red, green, blue] = ramps[name].subarray(4 * entry, 4 * entry + 3);
  return `rgb(${red}, ${green}, ${blue})`;
}

/**
 * The entry of each number in a ramp; 255 steps from 0 to `top`. What is forbidden, minus infinity, is -1.
 * @param {ArrayLike<number>} values @param {number} top @param {keyof typeof SCALES} scale
 */
export function entries(values, top, scale) {
  const found = new Int16Array(values.length);
  const turn = SCALES[scale];
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i];
    if (value === -Infinity) found[i] = -1;
    else found[i] = Math.round(255 * turn(Math.min(1, Math.max(0, top > 0 ? value / top : 0))));
  }
  return found;
}
