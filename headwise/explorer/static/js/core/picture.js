// @ts-check
/** Pictures as lists of marks, which become SVG or pixels; text stays text in both. */

import { FONT, SIZE, segment, sharp } from "./canvas.js";

/** @typedef {{ kind: "rect", x: number, y: number, width: number, height: number, fill: string }} Rect */
/**
 * @typedef {{ kind: "line", from: [number, number], to: [number, number], stroke: string, width: number, opacity:
 * number }} Line
 */
/**
 * @typedef {{ kind: "text", x: number, y: number, text: string, fill: string, anchor: "start" | "middle" | "end",
 * turned?: boolean, size?: number }} Text
 */
/**
 * @typedef {{ kind: "image", x: number, y: number, width: number, height: number, canvas: HTMLCanvasElement }} Image
 */
/** @typedef {{ width: number, height: number, title: string, marks: (Rect | Line | Text | Image)[] }} Picture */

const SPACE = "http://www.w3.org/2000/svg";
/** Letters and one mark for each cell of a larger matrix would be a file that nothing opens. */
export const MOST_CELLS = 128 * 128;

/** @param {Picture} picture */
export function toSvg(picture) {
  const made = (/** @type {string} */ tag, /** @type {Record<string, any>} */ values) => {
    const node = document.createElementNS(SPACE, tag);
    for (const [name, value] of Object.entries(values)) node.setAttribute(name, String(value));
    return node;
  };
  const { width, height } = picture;
  const root = made("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": FONT, role: "img" });
  const title = made("title", {});
  title.textContent = legal(picture.title);
  root.append(title);
  for (const mark of picture.marks) root.append(drawn(mark, made));
  return new XMLSerializer().serializeToString(root);
}

/** @param {Rect | Line | Text | Image} mark @param {(tag: string, values: Record<string, any>) => Element} made */
function drawn(mark, made) {
  if (mark.kind === "rect") {
    const { x, y, width, height, fill } = mark;
    return made("rect", { x, y, width, height, fill, "shape-rendering": "crispEdges" });
  }
  if (mark.kind === "line") {
    const [x1, y1, x2, y2] = [...mark.from, ...mark.to];
    const how = {
      stroke: mark.stroke,
      "stroke-width": mark.width,
      "stroke-opacity": mark.opacity,
      "stroke-linecap": "round",
    };
    return made("line", { x1, y1, x2, y2, ...how });
  }
  if (mark.kind === "image") {
    const { x, y, width, height, canvas } = mark;
    const values = { x, y, width, height, preserveAspectRatio: "none", href: canvas.toDataURL("image/png") };
    return made("image", { ...values, "image-rendering": "pixelated" });
  }
  const turn = mark.turned ? { transform: `rotate(-90 ${mark.x} ${mark.y})` } : {};
  const where = { x: mark.x, y: mark.y, fill: mark.fill, "text-anchor": mark.anchor, "font-size": mark.size || SIZE };
  const node = made("text", { ...where, ...turn });
  node.textContent = legal(mark.text);
  return node;
}

/** Without what no XML may hold: control characters, and halves of surrogate pairs. @param {string} text */
// eslint-disable-next-line no-control-regex
const legal = (text) => text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff\ud800-\udfff]/gu, "\ufffd");

/** Pixels of a side of a canvas, and of all of it, that every browser makes. */
const [MOST_SIDE, MOST_PIXELS] = [16384, 1 << 26];

/** @param {Picture} picture @param {number} wanted dots of the canvas for each unit; a large picture has fewer */
export function toCanvas(picture, wanted) {
  const { width, height } = picture;
  const dots = Math.min(wanted, MOST_SIDE / Math.max(width, height), Math.sqrt(MOST_PIXELS / (width * height)));
  const canvas = document.createElement("canvas");
  const context = sharp(canvas, width, height, dots);
  context.imageSmoothingEnabled = false;
  context.lineCap = "round";
  for (const mark of picture.marks) painted(mark, context);
  return canvas;
}

/** @param {Rect | Line | Text | Image} mark @param {CanvasRenderingContext2D} context */
function painted(mark, context) {
  if (mark.kind === "rect") {
    context.fillStyle = mark.fill;
    context.fillRect(mark.x, mark.y, mark.width, mark.height);
  } else if (mark.kind === "line") {
    context.globalAlpha = mark.opacity;
    context.strokeStyle = mark.stroke;
    context.lineWidth = mark.width;
    segment(context, mark.from, mark.to);
    context.globalAlpha = 1;
  } else if (mark.kind === "image") {
    context.drawImage(mark.canvas, mark.x, mark.y, mark.width, mark.height);
  } else {
    context.save();
    context.translate(mark.x, mark.y);
    if (mark.turned) context.rotate(-Math.PI / 2);
    context.font = `${mark.size || SIZE}px ${FONT}`;
    context.textAlign = mark.anchor === "middle" ? "center" : mark.anchor;
    context.fillStyle = mark.fill;
    context.fillText(mark.text, 0, 0);
    context.restore();
  }
}
