/** Words of a page that has nothing to show: English, Chinese. */

export const WORDS = {
  no_such_run: ["No run is called “{0}”. Choose one of these:", "没有名为“{0}”的模型。请选择其中一个："],
  empty: ["Type an input above, or take an example from {0}.", "请在上方输入，或在{0}选择示例。"],
  send_picture: [
    "Send a picture (PNG or JPEG), or try a drawn one.",
    "请发送一幅图像（PNG 或 JPEG），或试试画好的图。",
  ],
  send_on: ["Send a picture (PNG or JPEG) on the page {0}.", "请在“{0}”页发送一幅图像（PNG 或 JPEG）。"],
  first_example: ["Open example 0", "打开示例 0"],
};
