// @ts-check
/**
 * Formulas of steps as MathML, from the part of LaTeX that they use; an unknown command stays its name.
 */

const SPACE = "http://www.w3.org/1998/Math/MathML";
/** @type {Record<string, string>} */
const SIGNS = {
  top: "⊤",
  infty: "∞",
  phi: "φ",
  lambda: "λ",
  alpha: "α",
  beta: "β",
  gamma: "γ",
  sigma: "σ",
  tau: "τ",
  theta: "θ",
  pi: "π",
  sum: "∑",
  prod: "∏",
  max: "max",
  exp: "exp",
  log: "log",
  ln: "ln",
  tanh: "tanh",
  sin: "sin",
  cos: "cos",
  min: "min",
  dots: "…",
  ldots: "…",
  cdots: "⋯",
  cdot: "·",
  times: "×",
  odot: "⊙",
  circ: "∘",
  le: "≤",
  leq: "≤",
  ge: "≥",
  geq: "≥",
  ne: "≠",
  neq: "≠",
  in: "∈",
  to: "→",
  oplus: "⊕",
  lVert: "‖",
  rVert: "‖",
  lfloor: "⌊",
  rfloor: "⌋",
  approx: "≈",
  partial: "∂",
};
const SILENT = new Set(["textstyle", "displaystyle", "left", "right", "big", "Big", "limits", "!"]);
const WORDS = new Set(["text", "operatorname", "mathrm", "mathbf", "textrm"]);

/** @param {string} tag @param {...(Node | string)} kids */
function node(tag, ...kids) {
  const made = document.createElementNS(SPACE, tag);
  made.append(...kids);
  return made;
}

/** A formula in LaTeX as an element. @param {string} formula */
export function formula(formula) {
  const parts = formula.match(/\\[a-zA-Z]+|\\.|[0-9.]+|[^\s]|\s+/g) || [];
  const math = node("math", row(parts, false));
  math.setAttribute("aria-label", formula);
  return math;
}

/** What follows up to the end, or to the brace that closes. @param {string[]} parts @param {boolean} inside */
function row(parts, inside) {
  /** @type {Element[]} */
  const found = [];
  while (parts.length) {
    const part = parts[0];
    if (inside && part === "}") {
      parts.shift();
      break;
    }
    if (part === "^" || part === "_" || part === "'") raised(parts, found);
    else {
      const one = atom(parts);
      if (one) found.push(one);
    }
  }
  return node("mrow", ...found);
}

/** A sign above or below what stands before it. @param {string[]} parts @param {Element[]} found */
function raised(parts, found) {
  const below = parts[0] === "_";
  const prime = parts[0] === "'";
  parts.shift();
  const what = prime ? node("mo", "′") : atom(parts) || node("mrow");
  const last = found.pop() || node("mrow");
  // above what already has something below
  if (!below && last.localName === "msub") found.push(node("msubsup", ...last.childNodes, what));
  else if (below && last.localName === "msup")
    found.push(node("msubsup", last.childNodes[0], what, last.childNodes[1]));
  else found.push(node(below ? "msub" : "msup", last, what));
}

/** One sign, or a group of them. @param {string[]} parts @returns {Element | null} */
function atom(parts) {
  const part = parts.shift() || "";
  if (/^\s/.test(part) || part === "\\" || part === "}") return null;
  if (part === "{") return row(parts, true);
  if (part[0] === "\\") return command(part.slice(1), parts);
  if (/^[0-9.]/.test(part)) return node("mn", part);
  if (/^[a-zA-Z]/.test(part)) return node("mi", part);
  const sign = node("mo", part === "-" ? "−" : part === "*" ? "∗" : part);
  // brackets that grow need a font of mathematics
  sign.setAttribute("stretchy", "false");
  return sign;
}

/** @param {string} name @param {string[]} parts @returns {Element | null} */
function command(name, parts) {
  if (SILENT.has(name)) return null;
  if (/^[,;: ]$/.test(name)) return node("mtext", " ");
  if (WORDS.has(name)) return node("mtext", written(parts));
  if (name === "sqrt") return node("msqrt", atom(parts) || "");
  if (name === "frac") return node("mfrac", atom(parts) || "", atom(parts) || "");
  const sign = SIGNS[name] || name;
  if (sign.length > 1) return node("mi", sign);
  return node(/[α-ω]/.test(sign) ? "mi" : "mo", sign);
}

/** The letters of a group as they stand. @param {string[]} parts */
function written(parts) {
  if (parts[0] !== "{") return parts.shift() || "";
  parts.shift();
  const end = parts.indexOf("}");
  // spaces at its ends are meant
  return parts
    .splice(0, end < 0 ? parts.length : end + 1)
    .join("")
    .replace(/\}$/, "")
    .replace(/^ | $/g, "\u00a0");
}
