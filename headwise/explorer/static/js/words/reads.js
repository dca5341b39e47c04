/** Words for how pictures of inputs are read: English, Chinese. */

export const WORDS = {
  read_text: [
    "Each picture is a map of one head: a row for each word that looks, a column for each word that it looks at. The " +
      "more a cell stands out, the larger its weight.",
    "每幅图是一个头的热图：每行是一个发出注意的词，每列是一个被看的词；格子越醒目，权重越大。",
  ],
  read_image: [
    "On the grey picture, blue shows the weights of the sentence below it: the bluer, the larger; the orange frame " +
      "marks the largest. A model may look at another thing than the one that a word names, and yet be right.",
    "灰度图上的蓝色为下方句中的权重：越蓝越大，橙框处最大。模型所看的不一定是词所指的东西，输出仍可能正确。",
  ],
  read_sound: [
    "Each picture is a recording: time runs from left to right, pitch upwards, and louder is lighter. The bars below " +
      "are the weights of its moments; the orange one is the largest.",
    "每幅图是一段录音：从左到右为时间，从下到上为音高，越亮越响。下方的条为各时刻的权重，橙色者最大。",
  ],
  read_series: [
    "Solid lines are what was measured, dashed ones the forecast, dots what really came. Bars are the weights that " +
      "one head gives to the steps, seen from the step at the orange line; the last line says how much the highest is.",
    "实线为已测的值，虚线为预测，圆点为真实值。条为某个头从橙色竖线处的一步出发、给各步的权重，最高者的值见下方句中。",
  ],
  read_node: [
    "The large dot is the node that looks, the others are its neighbours; a colour is a class. The wider a line, the " +
      "more the node takes from that neighbour; the largest one is named.",
    "大圆点为发出注意的节点，其余为其邻居；颜色表示类别。连线越宽，从该邻居取得越多；最大者标有名称。",
  ],
  read_molecule: [
    "Lines are bonds; a dot without a letter is a carbon atom. The half of a bond at an atom is as wide as what this " +
      "atom takes from the other one; the two atoms of the largest weight are named.",
    "线为化学键，无字母的点为碳原子。键靠近某原子的一半越宽，该原子从另一原子取得越多；权重最大的两个原子标有名称。",
  ],
};
