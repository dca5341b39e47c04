// @ts-check
/** Answers that come line by line, each a JSON object. */

/**
 * @param {string} path @param {any} body @param {AbortSignal} signal
 * @returns {AsyncGenerator<any>}
 */
export async function* lines(path, body, signal) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
  const answer = await fetch(path, options);
  if (!answer.ok || !answer.body) {
    const told = await answer.json().catch(() => ({}));
    throw new Error([told.detail || answer.statusText, told.hint].filter(Boolean).join("; "));
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop() || "";
    for (const part of parts) if (part) yield JSON.parse(part);
  }
  if (rest) yield JSON.parse(rest);
}
