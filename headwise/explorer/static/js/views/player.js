// @ts-check
/** Which step of something that has steps is shown: playing from step to step, pause, single steps, any of them. */

import { h } from "../dom.js";
import { effect, signal } from "../store.js";
import { t } from "../strings.js";

const PAUSE_MS = 450;

/** Whether the reader wants nothing to move by itself. */
export const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

/** @typedef {{ value: any, peek: () => any }} Signal */

/**
 * @param {Signal} chosen the step that is locked, -1 for the last
 * @param {Signal} count of the steps there are
 * @param {Signal} open what more will come from, null when there will be no more
 */
export function player(chosen, count, open) {
  /** The step that is played, -1 while nothing plays. */
  const played = signal(-1);
  const step = () => {
    const last = count.value - 1;
    const at = played.value >= 0 ? played.value : chosen.value;
    return at < 0 ? last : Math.min(at, last);
  };
  /** @param {number} at */
  const go = (at) => {
    played.value = -1;
    chosen.value = at >= count.peek() - 1 && !open.peek() ? -1 : Math.max(0, at);
  };
  const self = {
    step,
    go,
    playing: () => played.value >= 0,
    /** Shows the last step, whichever that becomes. */
    rest() {
      played.value = -1;
      chosen.value = -1;
    },
    /** @param {number} from */
    play(from) {
      self.rest();
      played.value = Math.max(0, from);
    },
    turn() {
      if (played.peek() >= 0) go(step());
      else self.play(step() >= count.peek() - 1 ? 0 : step());
    },
    end: effect(() => {
      const at = played.value;
      if (at < 0) return undefined;
      if (at >= count.peek() - 1 && open.peek()) {
        // waits for what comes next
        void [count.value, open.value];
        return undefined;
      }
      const timer = setTimeout(() => {
        if (at < count.peek() - 1) played.value = at + 1;
        else if (open.peek()) self.play(at);
        else self.rest();
      }, PAUSE_MS);
      return () => clearTimeout(timer);
    }),
  };
  return self;
}

/** Its buttons and its slider. @param {ReturnType<typeof player>} self @param {Signal} count */
export function controls(self, count) {
  const slider = h("input", {
    type: "range",
    class: "scrub",
    min: 0,
    max: () => Math.max(0, count.value - 1),
    "aria-label": () => t("step"),
    oninput: () => self.go(Number(slider.value)),
  });
  const button = (/** @type {string} */ name, /** @type {string} */ sign, /** @type {() => void} */ work) =>
    h(
      "button",
      { "aria-label": () => t(name), title: () => t(name), disabled: () => count.value === 0, onclick: work },
      sign,
    );
  const main = h(
    "button",
    {
      class: "play",
      "aria-label": () => t(self.playing() ? "pause" : "play"),
      title: () => t(self.playing() ? "pause" : "play"),
      disabled: () => count.value === 0,
      onclick: () => self.turn(),
    },
    () => (self.playing() ? "❚❚" : "▶"),
  );
  const told = h("span", { class: "count" }, () => (count.value ? t("step_of", self.step() + 1, count.value) : ""));
  const end = effect(() => {
    // after the largest value is known
    void count.value;
    slider.value = String(Math.max(0, self.step()));
  });
  const parts = [
    button("back", "‹", () => self.go(self.step() - 1)),
    main,
    button("forward", "›", () => self.go(self.step() + 1)),
    slider,
    told,
  ];
  return { node: h("div", { class: "player", role: "group" }, parts), end };
}
