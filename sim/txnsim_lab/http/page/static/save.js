// @ts-check
// Save the picture of the stage as a file, as it looks: SVG with its styles in it, or PNG. Nothing is loaded for it:
// the page's policy lets no image in that was made here, so a PNG is drawn shape by shape.

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "paint-order", "font-family", "font-size", "font-weight", "letter-spacing", "text-decoration-line"];
const SHAPES = "rect, path, circle, text";
/** A PNG has so many points for each of the picture. */
const SCALE = 2;

const drawn = () => document.querySelector("svg.drawn");
const sizeOf = (svg) => svg.viewBox.baseVal;

function offer(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

/** The picture as a text that stands by itself. */
export function svgText() {
  const svg = drawn();
  const { x, y, width, height } = sizeOf(svg);
  const alone = svg.cloneNode(true);
  const from = [...svg.querySelectorAll(SHAPES)];
  [...alone.querySelectorAll(SHAPES)].forEach((one, n) => {
    const style = getComputedStyle(from[n]);
    for (const name of STYLES) one.setAttribute(name === "text-decoration-line" ? "text-decoration" : name, style.getPropertyValue(name));
    one.removeAttribute("class");
  });
  for (const one of alone.querySelectorAll("g")) for (const name of ["class", "role", "tabindex"]) one.removeAttribute(name);
  const ground = document.createElementNS(svg.namespaceURI, "rect");
  for (const [name, value] of Object.entries({ x, y, width, height, fill: getComputedStyle(document.body).backgroundColor })) ground.setAttribute(name, String(value));
  alone.prepend(ground);
  for (const [name, value] of Object.entries({ width, height, xmlns: svg.namespaceURI })) alone.setAttribute(name, String(value));
  for (const name of ["class", "role"]) alone.removeAttribute(name);
  return new XMLSerializer().serializeToString(alone);
}

export const saveSvg = () => offer(new Blob([svgText()], { type: "image/svg+xml" }), "txnsim.svg");

/** The stripes of what is open, as a pattern of a canvas. */
function stripes(pen, svg) {
  const tile = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
  const on = tile.getContext("2d");
  for (const name of [".ground", ".stripe"]) {
    on.fillStyle = getComputedStyle(svg.querySelector(name)).fill;
    on.fillRect(0, 0, name === ".stripe" ? 3 : 8, 8);
  }
  const found = pen.createPattern(tile, "repeat");
  found.setTransform(new DOMMatrix().rotate(45));
  return found;
}

function paint(pen, style, path, svg) {
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

function write(pen, style, one) {
  const [x, y] = ["x", "y"].map((name) => Number(one.getAttribute(name)));
  const text = [...one.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE).map(({ data }) => data).join("");
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

/** The tip of a curve: where it ends, along its last stretch. */
function tip(pen, svg, one) {
  const name = /#([\w-]+)/.exec(one.getAttribute("marker-end") ?? "")?.[1];
  if (!name) return;
  const end = one.getTotalLength();
  const [from, to] = [one.getPointAtLength(end - 1), one.getPointAtLength(end)];
  pen.save();
  pen.translate(to.x, to.y);
  pen.rotate(Math.atan2(to.y - from.y, to.x - from.x));
  pen.translate(-6, -4);
  pen.fillStyle = getComputedStyle(svg.querySelector(`#${name} path`)).fill;
  pen.fill(new Path2D("M0,0L8,4L0,8z"));
  pen.restore();
}

/** The picture on a canvas. */
export function canvasOf() {
  const svg = drawn();
  const { x, y, width, height } = sizeOf(svg);
  const canvas = Object.assign(document.createElement("canvas"), { width: width * SCALE, height: height * SCALE });
  const pen = canvas.getContext("2d");
  pen.scale(SCALE, SCALE);
  pen.translate(-x, -y);
  pen.fillStyle = getComputedStyle(document.body).backgroundColor;
  pen.fillRect(x, y, width, height);
  for (const one of svg.querySelectorAll(SHAPES)) {
    if (one.closest("defs")) continue;
    const style = getComputedStyle(one);
    pen.save();
    const moved = one.closest("[transform]")?.transform.baseVal.consolidate()?.matrix;
    if (moved) pen.translate(moved.e, moved.f);
    if (one.tagName === "text") write(pen, style, one);
    else {
      const path = new Path2D(one.tagName === "path" ? one.getAttribute("d") : undefined);
      const at = (name) => Number(one.getAttribute(name));
      if (one.tagName === "rect") path.roundRect(at("x"), at("y"), at("width"), at("height"), at("rx"));
      if (one.tagName === "circle") path.arc(at("cx"), at("cy"), at("r"), 0, 2 * Math.PI);
      paint(pen, style, path, svg);
      tip(pen, svg, one);
    }
    pen.restore();
  }
  return canvas;
}

export const savePng = () => canvasOf().toBlob((blob) => blob && offer(blob, "txnsim.png"));
