// @ts-check
/** What tokens are written with that is not in them, in words. */

import { learn, sentences, t } from "../strings.js";
import { WORDS } from "../words/marks.js";

learn(WORDS);

/** What is not written as it reads, and the words for it. @type {[RegExp, string][]} */
const MARKS = [
  // a time has its unit behind a space
  [/^(?![\d.]+ s$)[^]*[ \u2581]/, "mark_space"],
  [/\t/, "mark_tab"],
  [/\n/, "mark_line"],
  // eslint-disable-next-line no-control-regex
  [/[\0-\x08\x0b-\x1f]/, "mark_control"],
  [/^(<unk>|\[UNK\])$/, "mark_unknown"],
  [/^(<s>|<bos>|\[CLS\])$/, "mark_begin"],
  [/^(<\/s>|<eos>|\[SEP\])$/, "mark_end"],
  [/\ufffd/, "mark_bytes"],
];

/** What explains the marks of tokens, in sentences. @param {...string[]} sides the tokens of each side */
export function marks(...sides) {
  const all = sides.flat();
  const words = MARKS.map(([mark, name]) => {
    const token = all.find((one) => mark.test(one));
    return token === undefined ? "" : t(name, token);
  });
  return sentences(...words, sides.some((side) => new Set(side).size < side.length) ? t("mark_place") : "");
}
