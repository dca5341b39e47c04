// @ts-check
/** A view that is loaded when the page that holds it is there. */

import * as state from "../state.js";

/** Milliseconds after which what is not seen yet is loaded too. */
const REST = 1200;

/**
 * Mounts a view when it has come, unless its place is gone by then.
 * @param {() => Promise<any>} load
 * @param {...any} what it is mounted with
 */
export function later(load, ...what) {
  let [end, alive] = [() => {}, true];
  load().then(
    (view) => alive && (end = view.mount(...what)),
    (error) => alive && state.failed(error),
  );
  return () => {
    alive = false;
    end();
  };
}

/** Until what is seen first has had its time, or somebody goes on below it. */
export const rested = () =>
  new Promise((done) => {
    setTimeout(done, REST);
    for (const name of ["scroll", "keydown", "click"]) addEventListener(name, done, { once: true });
  });
