// @ts-check
/** NumPy's file format: a header that names type and shape, then the numbers. */

/** @typedef {{ shape: number[], data: Float32Array | Uint8Array }} Numbers */

const HALF = halves();

/**
 * The numbers of a `.npy` file in C order; half precision becomes float32.
 * @param {ArrayBuffer} buffer @returns {Numbers}
 */
export function parse(buffer) {
  const bytes = new Uint8Array(buffer);
  if (bytes.length < 10 || bytes[0] !== 0x93 || bytes[1] !== 0x4e) throw new Error("not a .npy file");
  const view = new DataView(buffer);
  const long = bytes[6] > 1;
  const start = long ? 12 : 10;
  const size = long ? view.getUint32(8, true) : view.getUint16(8, true);
  const header = new TextDecoder("latin1").decode(bytes.subarray(start, start + size));
  const kind = /'descr':\s*'([^']+)'/.exec(header);
  const shape = /'shape':\s*\(([^)]*)\)/.exec(header);
  if (!kind || !shape || /'fortran_order':\s*True/.test(header)) throw new Error("an array that is not read here");
  const sizes = shape[1]
    .split(",")
    .filter((part) => part.trim())
    .map(Number);
  const count = sizes.reduce((all, one) => all * one, 1);
  return { shape: sizes, data: numbers(kind[1], buffer, start + size, count) };
}

/**
 * @param {string} kind @param {ArrayBuffer} buffer @param {number} at @param {number} count
 * @returns {Float32Array | Uint8Array}
 */
export function numbers(kind, buffer, at, count) {
  if (kind === "|u1") return new Uint8Array(buffer, at, count);
  if (kind === "<f4") return new Float32Array(buffer.slice(at, at + 4 * count));
  if (kind === "<f2") {
    const raw = new Uint16Array(buffer.slice(at, at + 2 * count));
    const found = new Float32Array(count);
    for (let i = 0; i < count; i += 1) found[i] = HALF[raw[i]];
    return found;
  }
  throw new Error(`numbers of type ${kind} are not read here`);
}

/** Every half precision number as float32, by its bits. */
function halves() {
  const table = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits += 1) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 0) table[bits] = (sign * fraction) / 2 ** 24;
    else if (exponent === 31) table[bits] = fraction ? NaN : sign * Infinity;
    else table[bits] = sign * 2 ** (exponent - 15) * (1 + fraction / 1024);
  }
  return table;
}
