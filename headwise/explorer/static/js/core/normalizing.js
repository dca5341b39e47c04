// @ts-check
/** How the scores of a row become its weights, number by number. */

/**
 * What scores become on the way to weights: columns, and whether a sum is a step; null for an unknown one.
 * @param {string} name @param {number[]} scores @param {number[]} weights
 * @returns {{ columns: [string, number[], boolean][], sum: number, top: number, extra?: number } | null}
 */
export function normalized(name, scores, weights) {
  const [kind, option] = name.split(":");
  const allowed = scores.filter((score) => score > -Infinity);
  const top = allowed.length ? Math.max(...allowed) : 0;
  const count = Math.max(1, allowed.length);
  const total = (/** @type {number[]} */ numbers) => numbers.reduce((sum, number) => sum + number, 0);
  if (["softmax", "softmax1", "top_k"].includes(kind)) {
    const best = kind === "softmax1" ? Math.max(0, top) : top;
    const chosen = kind === "top_k" ? largest(scores, Number(option)) : null;
    const powers = scores.map((score, k) => (chosen && !chosen.has(k) ? 0 : Math.exp(score - best)));
    const extra = kind === "softmax1" ? Math.exp(-best) : 0;
    const columns = /** @type {[string, number[], boolean][]} */ ([
      ["less_largest", scores.map((score) => score - best), false],
      ["power", powers, true],
      ["by_sum", weights, true],
    ]);
    return { columns, sum: total(powers) + extra, top: best, extra };
  }
  if (kind === "sparsemax") {
    const support = scores.filter((_, k) => weights[k] > 0);
    const threshold = support.length ? (total(support) - 1) / support.length : 0;
    const less = scores.map((score) => score - threshold);
    return {
      columns: [
        ["less_threshold", less, false],
        ["not_below", weights, true],
      ],
      sum: support.length,
      top: threshold,
    };
  }
  if (kind === "relu" || kind === "relu2") {
    const powers = scores.map((score) => Math.max(0, score) ** (kind === "relu" ? 1 : 2));
    return {
      columns: [
        [kind, powers, true],
        ["by_count", weights, true],
      ],
      sum: count,
      top: 0,
    };
  }
  if (kind === "sigmoid") {
    const bias = option ? Number(option) : -Math.log(count);
    const columns = /** @type {[string, number[], boolean][]} */ ([
      ["plus_bias", scores.map((score) => score + bias), false],
      ["sigmoid", weights, true],
    ]);
    return { columns, sum: count, top: bias };
  }
  if (kind === "identity" || kind === "hard") return { columns: [[kind, weights, true]], sum: total(weights), top };
  return null;
}

/** The places of the largest numbers, the first of equal ones. @param {number[]} numbers @param {number} count */
const largest = (numbers, count) =>
  new Set(
    numbers
      .map((_, at) => at)
      .sort((one, two) => numbers[two] - numbers[one] || one - two)
      .slice(0, count),
  );
