// @ts-check
/** The picture that was read, beside a map whose columns are its patches: the chosen one is framed and told by name. */

import { coloursOf, density } from "../core/canvas.js";
import { getNumbers } from "../api.js";
import { gridded, picture, drawn, under } from "../core/overlay.js";
import { h } from "../dom.js";
import * as state from "../state.js";
import { effect, signal } from "../store.js";
import { learn, sentences, t } from "../strings.js";
import { WORDS as OF_PLACES } from "../words/patch_place.js";
import { WORDS } from "../words/vision.js";
import { choose, chosen } from "./heat.js";

learn(WORDS);
learn(OF_PLACES);

/**
 * @param {HTMLElement} place @param {state.Trace} trace @param {state.Group} group
 * @param {import("./heat.js").Head} head
 */
export function mount(place, trace, group, head) {
  const axis = /** @type {any} */ (trace.axes[group.name].keys);
  const [rows, columns] = axis.grid;
  const { covered, shape } = trace.places;
  const canvas = h("canvas", { class: "patched", role: "img" });
  const image = signal(/** @type {HTMLCanvasElement | null} */ (null));
  canvas.style.aspectRatio = `${covered[1]} / ${covered[0]}`;
  const looked = () => state.hovered.value || chosen(head);
  const words = () => {
    const { k } = looked();
    const at = k - axis.before;
    if (k < 0) return "";
    if (at < 0) return t("no_patch", head.group.keys[k]);
    return t("this_patch", head.group.keys[k], Math.floor(at / columns) + 1, (at % columns) + 1, rows, columns);
  };
  const notes = ["press_patch"];
  if (head.group.keys[0] === "class") notes.push("extra_token");
  if (nameless(trace)) notes.push("no_class_names");
  place.append(
    canvas,
    h(
      "div",
      {},
      h("p", {}, words),
      h("p", { class: "note" }, () => sentences(...notes.map((note) => t(note)))),
      h(
        "p",
        {},
        h("a", { href: () => state.address("vision") }, () => t("see_on_picture")),
      ),
    ),
  );
  canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const k = under(canvas, event, axis);
    if (k >= 0) choose({ q: Math.max(0, chosen(head).q), k }, head);
  });
  let alive = true;
  getNumbers(`/api/v1/traces/${trace.trace_id}/image`).then(
    (numbers) => alive && (image.value = picture(numbers)),
    (error) => alive && state.failed(error),
  );
  const end = effect(() => {
    const [mark, page] = coloursOf(canvas, "--mark", "--page");
    void state.dark.value;
    canvas.setAttribute("aria-label", words());
    const { k } = looked();
    if (!image.value) return;
    const dots = density();
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * dots));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * dots));
    drawn(canvas, image.value, { weights: null, axis, strength: 0, covered, shape, ramp: "" });
    gridded(canvas, axis, { lines: canvas.width / columns >= 5 * dots, marks: [[k, mark]], page, dots });
  });
  return () => {
    alive = false;
    end();
  };
}

/** Whether a model has numbers for its classes. @param {state.Trace} trace */
const nameless = ({ output }) => /^LABEL_\d/.test(output);
