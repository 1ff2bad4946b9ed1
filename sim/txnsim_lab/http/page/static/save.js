// @ts-check
// Saves the picture of the stage as a file: SVG with its styles, or PNG. The page's Content-Security-Policy allows no
// image that was made here, so the SVG can't be drawn as an image: the PNG is drawn shape by shape.

const SVG_STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "paint-order", "font-family", "font-size", "font-weight", "letter-spacing", "text-decoration-line"];
const SHAPE_SELECTOR = "rect, path, circle, text";
/** Pixels of the PNG for each pixel of the picture. */
const PNG_SCALE = 2;

const shownSvg = () => document.querySelector("svg.drawn");
const viewBoxOf = (svg) => svg.viewBox.baseVal;

function download(blob, name) {
  const downloadLink = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  downloadLink.click();
  URL.revokeObjectURL(downloadLink.href);
}

/** The picture as SVG text with all its styles, so that it needs no style sheet. */
export function svgText() {
  const svg = shownSvg();
  const { x, y, width, height } = viewBoxOf(svg);
  const standaloneSvg = svg.cloneNode(true);
  const originalShapes = [...svg.querySelectorAll(SHAPE_SELECTOR)];
  [...standaloneSvg.querySelectorAll(SHAPE_SELECTOR)].forEach((shape, n) => {
    const shapeStyle = getComputedStyle(originalShapes[n]);
    for (const styleName of SVG_STYLES) shape.setAttribute(styleName === "text-decoration-line" ? "text-decoration" : styleName, shapeStyle.getPropertyValue(styleName));
    shape.removeAttribute("class");
  });
  for (const svgGroup of standaloneSvg.querySelectorAll("g")) for (const attributeName of ["class", "role", "tabindex", "style"]) svgGroup.removeAttribute(attributeName);
  const backgroundRect = document.createElementNS(svg.namespaceURI, "rect");
  for (const [attributeName, value] of Object.entries({ x, y, width, height, fill: getComputedStyle(document.body).backgroundColor })) backgroundRect.setAttribute(attributeName, String(value));
  standaloneSvg.prepend(backgroundRect);
  for (const [attributeName, value] of Object.entries({ width, height, xmlns: svg.namespaceURI })) standaloneSvg.setAttribute(attributeName, String(value));
  for (const attributeName of ["class", "role", "style"]) standaloneSvg.removeAttribute(attributeName);
  return new XMLSerializer().serializeToString(standaloneSvg);
}

export const saveSvg = () => download(new Blob([svgText()], { type: "image/svg+xml" }), "txnsim.svg");

/** The stripes of an open batch, as a canvas pattern. */
function stripePattern(pen, svg) {
  const tileCanvas = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
  const tilePen = tileCanvas.getContext("2d");
  for (const stripeClass of [".ground", ".stripe"]) {
    tilePen.fillStyle = getComputedStyle(svg.querySelector(stripeClass)).fill;
    tilePen.fillRect(0, 0, stripeClass === ".stripe" ? 3 : 8, 8);
  }
  const canvasPattern = pen.createPattern(tileCanvas, "repeat");
  canvasPattern.setTransform(new DOMMatrix().rotate(45));
  return canvasPattern;
}

function paintShape(pen, style, path, svg) {
  const { fill, stroke } = style;
  if (fill !== "none") {
    pen.fillStyle = fill.startsWith("url") ? stripePattern(pen, svg) : fill;
    pen.fill(path);
  }
  if (stroke === "none") return;
  pen.strokeStyle = stroke;
  pen.lineWidth = Number.parseFloat(style.strokeWidth);
  pen.setLineDash((style.strokeDasharray === "none" ? "" : style.strokeDasharray).split(/[, ]+/).filter(Boolean).map(Number.parseFloat));
  pen.stroke(path);
}

function paintText(pen, style, textElement) {
  const [x, y] = ["x", "y"].map((name) => Number(textElement.getAttribute(name)));
  const shownText = [...textElement.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE).map(({ data }) => data).join("");
  pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  pen.letterSpacing = style.letterSpacing === "normal" ? "0px" : style.letterSpacing;
  pen.setLineDash([]);
  if (style.stroke !== "none") {
    [pen.strokeStyle, pen.lineWidth, pen.lineJoin] = [style.stroke, Number.parseFloat(style.strokeWidth), "round"];
    pen.strokeText(shownText, x, y);
  }
  pen.fillStyle = style.fill;
  pen.fillText(shownText, x, y);
  if (style.textDecorationLine.includes("line-through")) pen.fillRect(x, y - Number.parseFloat(style.fontSize) / 3, pen.measureText(shownText).width, 1);
}

/** Draw the arrow head of a curve, in the direction in which the curve ends. */
function paintArrowHead(pen, svg, curve) {
  const markerId = /#([\w-]+)/.exec(curve.getAttribute("marker-end") ?? "")?.[1];
  if (!markerId) return;
  const curveLength = curve.getTotalLength();
  const [from, to] = [curve.getPointAtLength(curveLength - 1), curve.getPointAtLength(curveLength)];
  pen.save();
  pen.translate(to.x, to.y);
  pen.rotate(Math.atan2(to.y - from.y, to.x - from.x));
  pen.translate(-6, -4);
  pen.fillStyle = getComputedStyle(svg.querySelector(`#${markerId} path`)).fill;
  pen.fill(new Path2D("M0,0L8,4L0,8z"));
  pen.restore();
}

/** Draw the picture on a canvas. */
export function pictureCanvas() {
  const svg = shownSvg();
  const { x, y, width, height } = viewBoxOf(svg);
  const canvas = Object.assign(document.createElement("canvas"), { width: width * PNG_SCALE, height: height * PNG_SCALE });
  const pen = canvas.getContext("2d");
  pen.scale(PNG_SCALE, PNG_SCALE);
  pen.translate(-x, -y);
  pen.fillStyle = getComputedStyle(document.body).backgroundColor;
  pen.fillRect(x, y, width, height);
  for (const shape of svg.querySelectorAll(SHAPE_SELECTOR)) {
    if (shape.closest("defs")) continue;
    const shapeStyle = getComputedStyle(shape);
    pen.save();
    const translation = shape.closest("[transform]")?.transform.baseVal.consolidate()?.matrix;
    if (translation) pen.translate(translation.e, translation.f);
    if (shape.tagName === "text") paintText(pen, shapeStyle, shape);
    else {
      const shapePath = new Path2D(shape.tagName === "path" ? shape.getAttribute("d") : undefined);
      const numberAttribute = (name) => Number(shape.getAttribute(name));
      if (shape.tagName === "rect") shapePath.roundRect(numberAttribute("x"), numberAttribute("y"), numberAttribute("width"), numberAttribute("height"), numberAttribute("rx"));
      if (shape.tagName === "circle") shapePath.arc(numberAttribute("cx"), numberAttribute("cy"), numberAttribute("r"), 0, 2 * Math.PI);
      paintShape(pen, shapeStyle, shapePath, svg);
      paintArrowHead(pen, svg, shape);
    }
    pen.restore();
  }
  return canvas;
}

export const savePng = () => pictureCanvas().toBlob((blob) => blob && download(blob, "txnsim.png"));
