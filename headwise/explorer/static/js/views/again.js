// @ts-check
/** The command that trains a run again with other settings, from the folder that holds it. */

/** A path as a shell reads it. @param {string} path */
export const quoted = (path) => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);

/** The folder of a run with a film. @param {string} name */
export const filmed = (name) => quoted(`${name}-film`);

/** @param {string} name of the run @param {string} settings */
export const again = (name, settings) =>
  `headwise train ${quoted(`${name}/config.toml`)} ${settings} --run-folder ${filmed(name)}`;
