// @ts-check
/** What the line at the foot says to those who hear the page, where what is seen says it already. */

import { effect } from "../store.js";
import * as state from "../state.js";

let end = () => {};

/** @param {string} text @param {boolean} seen whether it stands elsewhere, so that the line covers nothing for it */
export function say(text, seen) {
  const line = document.querySelector("p.status");
  end();
  state.status.value = text;
  // what comes after it is seen
  end = effect(() => void line?.classList.toggle("unseen", seen && state.status.value === text));
}
