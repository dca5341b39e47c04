// @ts-check
/** Buttons that save what is shown: a picture, or the whole trace as one file. */

import { getFile, query } from "../api.js";
import { h } from "../dom.js";
import * as state from "../state.js";
import { t } from "../strings.js";
import { toolbar } from "./toolbar.js";

/** Pixels for each unit of a picture, and of its longer side, at least: it fills a slide and can be printed. */
const [DOTS, SLIDE] = [2, 1920];
const TOO_LARGE = 413;

/**
 * Buttons for a picture, which is made when it is asked for, as one stop.
 * @param {string} name @param {() => Promise<import("../core/picture.js").Picture>} make
 */
export const picture = (name, make) => toolbar(() => t("savedPicture"), "saving", buttons(name, make));

/**
 * The same within other buttons.
 * @param {string} name @param {() => Promise<import("../core/picture.js").Picture>} make
 */
export function buttons(name, make) {
  const drawing = () => import("../core/picture.js");
  const png = async () => {
    const shown = await make();
    const dots = Math.max(DOTS, SLIDE / Math.max(shown.width, shown.height));
    const canvas = (await drawing()).toCanvas(shown, dots);
    canvas.toBlob((blob) => blob && saved(blob, `${name}.png`), "image/png");
  };
  const svg = async () => {
    const text = (await drawing()).toSvg(await make());
    saved(new Blob([text], { type: "image/svg+xml" }), `${name}.svg`);
  };
  return [button("PNG", "savedPicture", png), button("SVG", "savedPicture", svg)];
}

/**
 * Buttons for all of a trace, or for what counts by a method where that is shown.
 * @param {state.Trace} trace @param {state.Group} group
 */
export function trace(trace, group) {
  const at = `/api/v1/traces/${trace.trace_id}/export`;
  const ask = (/** @type {string} */ kind) => () => {
    state.status.value = t("loading");
    const by = state.method();
    if (by) {
      const named = `attribution ${by}.${kind}`;
      getFile(`${at}?${query({ as: kind, by })}`).then((blob) => saved(blob, named), refused);
      return;
    }
    const file = (/** @type {Record<string, string>} */ part) => getFile(`${at}?${query({ as: kind, ...part })}`);
    // what is too large as a whole may do as the part that is looked at
    const whole = file({}).then((blob) => saved(blob, `attention.${kind}`));
    const part = () => file({ group: group.name }).then((blob) => saved(blob, `attention ${group.name}.${kind}`));
    whole.catch((error) => (error.status === TOO_LARGE ? part() : Promise.reject(error))).catch(refused);
  };
  const refused = (/** @type {Error} */ error) => {
    state.failed(error);
  };
  return h(
    "span",
    { class: "saving" },
    button("HTML", "savedPage", ask("html")),
    button("npz", "savedNumbers", ask("npz")),
  );
}

/** @param {string} kind @param {string} what @param {() => void} work */
function button(kind, what, work) {
  const named = () => `${t("save")} ${kind}: ${t(what)}`;
  return h("button", { onclick: work, title: named, "aria-label": named }, "↓ ", kind);
}

/** Gives a file to the browser. @param {Blob} blob @param {string} name */
export function saved(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = h("a", { href: address, download: name });
  link.click();
  // the browser has taken it by then
  setTimeout(() => URL.revokeObjectURL(address), 10000);
  state.status.value = `${t("saved")}: ${name}, ${Math.max(1, Math.round(blob.size / 1024)).toLocaleString("en")} KB`;
}
