// @ts-check
/** A view that is loaded when the page that holds it is there. */

/**
 * Mounts a view when it has come, unless its place is gone by then.
 * @param {() => Promise<any>} load
 * @param {...any} what it is mounted with
 * @returns {() => void}
 */
export function later(load, ...what) {
  let [end, alive] = [() => {}, true];
  load().then((view) => {
    if (alive) end = view.mount(...what);
  });
  return () => {
    alive = false;
    end();
  };
}
