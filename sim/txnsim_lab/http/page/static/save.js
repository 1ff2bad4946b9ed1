// @ts-check
// Saves the picture of the stage as a file: SVG with its styles, or PNG. The page's Content-Security-Policy allows no
// image that was made here, so the SVG can't be drawn as an image: the PNG is drawn shape by shape.

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "paint-order", "font-family", "font-size", "font-weight", "letter-spacing", "text-decoration-line"];
const SHAPES = "rect, path, circle, text";
/** Pixels of the PNG for each pixel of the picture. */
const SCALE = 2;

const shownSvg = () => document.querySelector("svg.drawn");
const sizeOf = (svg) => svg.viewBox.baseVal;

function download(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

/** The picture as SVG text with all its styles, so that it needs no style sheet. */
export function svgText() {
  const svg = shownSvg();
  const { x, y, width, height } = sizeOf(svg);
  const standalone = svg.cloneNode(true);
  const originalShapes = [...svg.querySelectorAll(SHAPES)];
  [...standalone.querySelectorAll(SHAPES)].forEach((shape, n) => {
    const style = getComputedStyle(originalShapes[n]);
    for (const name of STYLES) shape.setAttribute(name === "text-decoration-line" ? "text-decoration" : name, style.getPropertyValue(name));
    shape.removeAttribute("class");
  });
  for (const group of standalone.querySelectorAll("g")) for (const name of ["class", "role", "tabindex"]) group.removeAttribute(name);
  const background = document.createElementNS(svg.namespaceURI, "rect");
  for (const [name, value] of Object.entries({ x, y, width, height, fill: getComputedStyle(document.body).backgroundColor })) background.setAttribute(name, String(value));
  standalone.prepend(background);
  for (const [name, value] of Object.entries({ width, height, xmlns: svg.namespaceURI })) standalone.setAttribute(name, String(value));
  for (const name of ["class", "role"]) standalone.removeAttribute(name);
  return new XMLSerializer().serializeToString(standalone);
}

export const saveSvg = () => download(new Blob([svgText()], { type: "image/svg+xml" }), "txnsim.svg");

/** The stripes of an open batch, as a canvas pattern. */
function stripes(pen, svg) {
  const tile = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
  const tilePen = tile.getContext("2d");
  for (const name of [".ground", ".stripe"]) {
    tilePen.fillStyle = getComputedStyle(svg.querySelector(name)).fill;
    tilePen.fillRect(0, 0, name === ".stripe" ? 3 : 8, 8);
  }
  const pattern = pen.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().rotate(45));
  return pattern;
}

function paintShape(pen, style, path, svg) {
  const { fill, stroke } = style;
  if (fill !== "none") {
    pen.fillStyle = fill.startsWith("url") ? stripes(pen, svg) : fill;
    pen.fill(path);
  }
  if (stroke === "none") return;
  pen.strokeStyle = stroke;
  pen.lineWidth = Number.parseFloat(style.strokeWidth);
  pen.setLineDash((style.strokeDasharray === "none" ? "" : style.strokeDasharray).split(/[, ]+/).filter(Boolean).map(Number.parseFloat));
  pen.stroke(path);
}

function writeText(pen, style, textElement) {
  const [x, y] = ["x", "y"].map((name) => Number(textElement.getAttribute(name)));
  const text = [...textElement.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE).map(({ data }) => data).join("");
  pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  pen.letterSpacing = style.letterSpacing === "normal" ? "0px" : style.letterSpacing;
  pen.setLineDash([]);
  if (style.stroke !== "none") {
    [pen.strokeStyle, pen.lineWidth, pen.lineJoin] = [style.stroke, Number.parseFloat(style.strokeWidth), "round"];
    pen.strokeText(text, x, y);
  }
  pen.fillStyle = style.fill;
  pen.fillText(text, x, y);
  if (style.textDecorationLine.includes("line-through")) pen.fillRect(x, y - Number.parseFloat(style.fontSize) / 3, pen.measureText(text).width, 1);
}

/** Draw the arrow head of a curve, in the direction in which the curve ends. */
function paintTip(pen, svg, curve) {
  const name = /#([\w-]+)/.exec(curve.getAttribute("marker-end") ?? "")?.[1];
  if (!name) return;
  const end = curve.getTotalLength();
  const [from, to] = [curve.getPointAtLength(end - 1), curve.getPointAtLength(end)];
  pen.save();
  pen.translate(to.x, to.y);
  pen.rotate(Math.atan2(to.y - from.y, to.x - from.x));
  pen.translate(-6, -4);
  pen.fillStyle = getComputedStyle(svg.querySelector(`#${name} path`)).fill;
  pen.fill(new Path2D("M0,0L8,4L0,8z"));
  pen.restore();
}

/** Draw the picture on a canvas. */
export function canvasOf() {
  const svg = shownSvg();
  const { x, y, width, height } = sizeOf(svg);
  const canvas = Object.assign(document.createElement("canvas"), { width: width * SCALE, height: height * SCALE });
  const pen = canvas.getContext("2d");
  pen.scale(SCALE, SCALE);
  pen.translate(-x, -y);
  pen.fillStyle = getComputedStyle(document.body).backgroundColor;
  pen.fillRect(x, y, width, height);
  for (const shape of svg.querySelectorAll(SHAPES)) {
    if (shape.closest("defs")) continue;
    const style = getComputedStyle(shape);
    pen.save();
    const shift = shape.closest("[transform]")?.transform.baseVal.consolidate()?.matrix;
    if (shift) pen.translate(shift.e, shift.f);
    if (shape.tagName === "text") writeText(pen, style, shape);
    else {
      const path = new Path2D(shape.tagName === "path" ? shape.getAttribute("d") : undefined);
      const attributeOf = (name) => Number(shape.getAttribute(name));
      if (shape.tagName === "rect") path.roundRect(attributeOf("x"), attributeOf("y"), attributeOf("width"), attributeOf("height"), attributeOf("rx"));
      if (shape.tagName === "circle") path.arc(attributeOf("cx"), attributeOf("cy"), attributeOf("r"), 0, 2 * Math.PI);
      paintShape(pen, style, path, svg);
      paintTip(pen, svg, shape);
    }
    pen.restore();
  }
  return canvas;
}

export const savePng = () => canvasOf().toBlob((blob) => blob && download(blob, "txnsim.png"));
