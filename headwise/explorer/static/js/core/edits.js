// @ts-check
/** Edits of attention as a list, as the server is asked for them, and as the text of an address. */

/**
 * @typedef {{ kind: string, layer?: string, group?: string, heads?: number[], head?: number, query?: number, key?:
 * number, weight?: number, renormalized?: boolean, tokens?: number[], mask?: string, width?: number, mechanism?:
 * string, score?: string, normalizer?: string }} Edit
 */

export const MOST = 16;
const whole = (/** @type {string} */ text) => (/^\d{1,6}$/.test(text) ? Number(text) : NaN);
const all = (/** @type {string} */ text) => text.split(",").map(whole);

/** What comes behind the kind, for each kind: from parts to an edit, and back. */
const KINDS = /** @type {Record<string, [(parts: string[]) => Edit, (edit: any) => (string | number)[]]>} */ ({
  mute: [([layer, heads]) => ({ kind: "mute", layer, heads: all(heads) }), (one) => [one.layer, one.heads.join(",")]],
  force: [
    ([layer, head, query, key, weight, how]) => ({
      kind: "force",
      layer,
      head: whole(head),
      query: whole(query),
      key: whole(key),
      weight: Number(weight),
      renormalized: how !== "0",
    }),
    (one) => [one.layer, one.head, one.query, one.key, one.weight, one.renormalized ? 1 : 0],
  ],
  hide: [
    ([group, tokens]) => ({ kind: "hide", group, tokens: all(tokens) }),
    (one) => [one.group, one.tokens.join(",")],
  ],
  narrow: [
    ([layer, mask, width]) => ({ kind: "narrow", layer, mask, width: whole(width) }),
    (one) => [one.layer, one.mask, one.width],
  ],
  swap: [
    ([layer, what, name]) => ({ kind: "swap", layer, [what]: name }),
    (one) => {
      const what = ["mechanism", "score", "normalizer"].find((part) => one[part]) || "mechanism";
      return [one.layer, what, one[what]];
    },
  ],
});

/** @param {Edit[]} edits */
export const written = (edits) => edits.map((one) => [one.kind, ...KINDS[one.kind][1](one)].join("~")).join("|");

/** The edits of a text; what is none is left out. @param {string} text */
export function read(text) {
  const found = text
    .split("|")
    .map((one) => one.split("~"))
    .filter(([kind, ...parts]) => Object.hasOwn(KINDS, kind) && parts.length >= 2)
    .map(([kind, ...parts]) => KINDS[kind][0](parts));
  return found.filter(sound).slice(0, MOST);
}

/** @param {Edit} edit */
function sound(edit) {
  const numbers = Object.values(edit)
    .flat()
    .filter((value) => typeof value === "number");
  const swapped =
    edit.kind !== "swap" || ["mechanism", "score", "normalizer"].some((part) => /** @type {any} */ (edit)[part]);
  return (
    numbers.every(Number.isFinite) &&
    swapped &&
    Object.values(edit).every((value) => value !== undefined && value !== "")
  );
}
