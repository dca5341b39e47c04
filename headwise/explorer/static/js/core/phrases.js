// @ts-check
/** Tokens and names within sentences. */

const [BEGINS, ENDS] = [/^[\u3400-\u9fff]/, /[\u3400-\u9fff]$/];
const textOf = (/** @type {any} */ part) => String(part?.textContent ?? part ?? "");

/** A phrase in parts, whose blanks stay where what they part is no Chinese on both sides. @param {any[]} parts */
export const closed = (parts) =>
  parts.map((part, at) => {
    if (typeof part !== "string" || at % 2) return part;
    const [before, after] = [textOf(parts[at - 1]), textOf(parts[at + 1])];
    const begun = ENDS.test(before) && BEGINS.test(part.trimStart()) ? part.trimStart() : part;
    return BEGINS.test(after) && ENDS.test(begun.trimEnd()) ? begun.trimEnd() : begun;
  });

/** A token without a letter or digit would be read as part of the sentence. @param {string} token */
export const quoted = (token) => (/[\p{L}\p{N}]/u.test(token) ? token : `“${token}”`);
