/** Words of cards of inputs: English, Chinese. */

export const WORDS = {
  instead: ["Or take one of these:", "或选取其中一个："],
  // broken in one place alone
  story: ["{0}\u00a0takes\u00a0{1} from\u00a0{2}", "{0}\u00a0有\u00a0{1} 取\u2060自\u00a0{2}"],
  if_even: ["(evenly: {0})", "（均匀时 {0}）"],
  if_even_note: [
    "Evenly: what the word would get if all tokens looked at had the same weight.",
    "均匀时：所看的各词元权重相同时，该词所得的份额。",
  ],
  all_near_even: [
    "This model has hardly learned: each word looks at {1} almost alike (evenness at least {0}, where 100 % " +
      "is wholly alike). So its maps are pale{2}, and its answers are left out. An opened map has a scale of its own.",
    "此模型几乎没有学到什么：每个词看{1}都差不多（均匀程度至少 {0}，100 % 为完全一样）。因此热图{2}平淡，输出也不列出。打开的热图各用自己的刻度。",
  ],
  first_rows: [" below the first rows, which have few words to look at", "除前几行（可看的词很少）外都"],
  all_others: ["all others", "其他词"],
  all_before: ["itself and all before it", "自己与之前的词"],
  card_near_even: ["near even in every head: no word stands out", "各头都接近均匀：没有哪个词突出"],
  aromatic: ["(lower case: aromatic)", "（小写：芳香原子）"],
  repeats: [
    "The continuations repeat themselves: at each step the likeliest token is taken, by a model that is small or was " +
      "trained briefly. Look at how its heads read the input.",
    "续写在重复自己：每步都取最可能的词元，而模型很小或训练很短。请看各头怎样读输入。",
  ],
  goes_on: ["goes on: {0}", "续写：{0}"],
  story_place: ["{0} looks most at {2}: {1}", "{0} 主要看{2}：{1}"],
  place_of: ["{0} of\u00a0{1}\u00a0×\u00a0{2}", "{0}（共\u00a0{1}\u00a0×\u00a0{2}）"],
  story_moment: ["most weight at {1}: {0}", "权重最大处 {1}：{0}"],
  no_character: ["a byte that is no character", "不成字符的字节"],
  heard: ["heard:", "听到："],
  truth: ["in the data: {0}", "数据中为：{0}"],
  begin_with: ["Type an input above, or begin with one of these:", "请在上方输入，或从其中一个开始："],
  look_on: ["Or look at {0} on the page {1}:", "或在“{1}”页查看 {0}："],
};
