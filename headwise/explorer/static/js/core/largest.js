// @ts-check
/** The largest of some numbers. */

/**
 * Where the largest of some numbers is: of `count` of them, from one on, with a step between them.
 * @param {ArrayLike<number>} values @param {number} [from] @param {number} [count] @param {number} [step]
 */
export function largestAt(values, from = 0, count = values.length, step = 1) {
  let most = 0;
  for (let at = 1; at < count; at += 1) if (values[from + at * step] > values[from + most * step]) most = at;
  return most;
}

/** The largest of the finite numbers, 0 at least. @param {Float32Array} values */
export function largestOf(values) {
  let largest = 0;
  for (const value of values) if (value > largest && value < Infinity) largest = value;
  return largest;
}
