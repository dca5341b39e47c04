// @ts-check
/** A token without a letter or digit would be read as part of the sentence. @param {string} token */
export const quoted = (token) => (/[\p{L}\p{N}]/u.test(token) ? token : `“${token}”`);
