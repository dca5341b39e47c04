// @ts-check
/** Values that tell when they change: signals, and effects that run again when a signal they read has changed. */

/** @typedef {{ run: () => void, sources: Set<Set<any>>, undo: (() => void) | void }} Effect */

/** @type {Effect | null} */
let running = null;
/** @type {Set<Effect>} */
const waiting = new Set();
let depth = 0;

/** A value that effects depend on by reading it. @template T @param {T} value */
export function signal(value) {
  /** @type {Set<Effect>} */
  const readers = new Set();
  return {
    get value() {
      if (running) {
        readers.add(running);
        running.sources.add(readers);
      }
      return value;
    },
    set value(next) {
      if (Object.is(next, value)) return;
      value = next;
      batch(() => readers.forEach((one) => waiting.add(one)));
    },
    peek: () => value,
  };
}

/**
 * Runs now and after every change of what it read; what it returns is called before it runs again.
 * @param {() => (() => void) | void} work @returns {() => void} ends it
 */
export function effect(work) {
  /** @type {Effect} */
  const self = {
    sources: new Set(),
    undo: undefined,
    run() {
      release(self);
      const before = running;
      running = self;
      try {
        self.undo = work();
      } finally {
        running = before;
      }
    },
  };
  self.run();
  return () => {
    waiting.delete(self);
    release(self);
  };
}

/** Effects of several changes run once, at the end. @param {() => void} work */
export function batch(work) {
  depth += 1;
  try {
    work();
  } finally {
    depth -= 1;
    while (depth === 0 && waiting.size) {
      const [next] = waiting;
      waiting.delete(next);
      next.run();
    }
  }
}

/** @param {Effect} one */
function release(one) {
  one.sources.forEach((readers) => readers.delete(one));
  one.sources.clear();
  if (one.undo) one.undo();
  one.undo = undefined;
}
