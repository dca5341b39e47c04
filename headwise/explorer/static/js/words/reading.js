/** Words of what is read of a cell and its row: English, Chinese. */

export const WORDS = {
  too_long_made: [
    "Every step of this number can be shown of shorter inputs; {0} tokens are too many.",
    "输入较短时，可以逐步看这个数怎样算出来；{0} 个词元太多。",
  ],
  too_long_made_nodes: [
    "Every step of this number can be shown of smaller graphs; {0} nodes are too many.",
    "图较小时，可以逐步看这个数怎样算出来；{0} 个节点太多。",
  ],
  say_strangers: ["{0} takes nothing from {2}: they are not neighbours.", "{0} 不从 {2} 取值：二者不相邻。"],
  facts_note: [
    "Entropy: how spread the row is, 0 for one key. Keys looked at: as if over so many keys, evenly.",
    "熵：此行的分散程度，只看一个键时为 0。有效键数：相当于均匀地看这么多个键。",
  ],
  score_note: ["Score: the scores of a row are turned into its weights.", "得分：一行的各得分换算成该行的权重。"],
  full_bar: ["A full bar is {0}.", "满格为 {0}。"],
  mark_atom: [
    "C2: carbon, the second atom of the formula; lower case: aromatic.",
    "C2：碳，式中第 2 个原子；小写：芳香原子。",
  ],
};
