// @ts-check
// Draws the picture of the stage: application, coordinator and logs above each other, marker and record as curves into
// the log, and the reader at the batch that it must not pass (the wall).

import { signal } from "@preact/signals";
import { html } from "../html.js";
import { comparison, goTo, indexOf, lesson } from "../store.js";
import { hueOf } from "./tape.js";

const narrowScreen = matchMedia("(max-width: 760px)");
const isSmall = signal(narrowScreen.matches);
narrowScreen.addEventListener("change", () => (isSmall.value = narrowScreen.matches));
/** On a small screen, and where two pictures stand beside a lesson, the picture is narrower; its text stays as large. */
const pictureWidth = () => (isSmall.value ? 380 : hasTwoPictures() ? 470 : 660);
const hasTwoPictures = () => Boolean(comparison.value && lesson.value);
const isNarrow = () => isSmall.value || hasTwoPictures();
/** How many states of the coordinator fit. */
const pillsMax = () => (isNarrow() ? 2 : 4);
const LEFT = 34; // room for the reader's figure left of the first batch
const TOP = { app: 14, coordinator: 92, log: 236 };
const BOX = 34, PILL = 30, CELL = 70, LOG = 106, READERS = 56, SHARER = 22;
const GAP = 8, SPACE = 12;
const FONT = '14px system-ui, "DejaVu Sans", sans-serif';
const TEXT_MAX = 34, CELL_TEXT_MAX = 18;

let pen = null;
/** The width of a text in pixels. */
function widthOf(text, isBold = false) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = isBold ? `700 ${FONT}` : FONT;
  return pen.measureText(text).width;
}
const shorten = (text, lengthMax = TEXT_MAX) => (text.length > lengthMax ? `${[...text].slice(0, lengthMax - 1).join("")}…` : text);

/** `picture` is what `pictureOf` in picture.js returns for a moment. */
export function Picture({ picture, label = "The picture", isStill = false }) {
  const app = shorten(picture.app.text, isNarrow() ? 40 : 60);
  const appWidth = widthOf(app) + 2 * SPACE;
  const pills = pillsOf(picture.coordinator);
  const nowPill = pills.findLast(({ isNow }) => isNow) ?? { x: 0, width: 0 };
  const outX = nowPill.x + nowPill.width / 2;
  let height = TOP.log;
  const logs = picture.logs.map((log) => {
    const logLayout = layOutLog(log, height);
    height += LOG + (log.isOpen || picture.logs.length === 1 ? READERS : 0); // a single log keeps this room, so that it stands still when a reader comes
    height += SHARER * logLayout.sharers.length;
    return logLayout;
  });
  const startOf = ({ kind }) => (kind === "record" ? [appWidth, TOP.app + 27] : [outX, TOP.coordinator + 10 + PILL]);
  const coordinatorText = shorten(picture.coordinator.text, 60);
  const coordinatorWidth = widthOf(coordinatorText);
  return html`<svg class=${`drawn${logs.length > 1 ? " tall" : ""}`} role="group" aria-label=${label} viewBox=${`-2 0 ${pictureWidth() + 4} ${height + 4}`}>
    <defs>${["new", "old"].map((name) => html`<marker id=${`tip-${name}`} class=${`tip ${name}`} markerWidth="10" markerHeight="10" refX="6" refY="4" orient="auto" markerUnits="userSpaceOnUse"><path d="M0,0L8,4L0,8z" /></marker>`)}
      <pattern id="stripes" width="8" height="8" patternTransform="rotate(45)" patternUnits="userSpaceOnUse"><rect class="ground" width="8" height="8" /><rect class="stripe" width="3" height="8" /></pattern></defs>
    <text class="cap" x="0" y=${TOP.app}>THE APPLICATION BELIEVES</text>
    <rect class=${`box ${picture.app.how}`} x="0" y=${TOP.app + 10} width=${appWidth} height=${BOX} rx="6" /><text class="app" x=${SPACE} y=${TOP.app + 32}>${app}${app !== picture.app.text && html`<title>${picture.app.text}</title>`}</text>
    <text class="cap" x="0" y=${TOP.coordinator}>THE COORDINATOR BELIEVES${picture.coordinator.where && ` · ${picture.coordinator.where}`}</text>
    ${picture.flights.map((flight) => html`<${Flight} key=${keyOf(flight)} flight=${flight} logs=${logs} from=${startOf(flight)} />`)}
    ${pills.map(({ x, width, name, isNow, isPending }) => html`<rect class=${`pill${isNow ? " now" : ""}${isPending ? " pending" : ""}`} x=${x} y=${TOP.coordinator + 10} width=${width} height=${PILL} rx="15" /><text class=${`state-name${isNow ? " now" : ""}`} x=${x + SPACE} y=${TOP.coordinator + 30}>${name}</text>`)}
    <text class="coordinator" x=${outX + 14 + coordinatorWidth < pictureWidth() - 90 ? outX + 14 : Math.max(0, outX - 28 - coordinatorWidth)} y=${TOP.coordinator + 62}>${coordinatorText}</text>
    ${logs.map((log) => html`<${Log} key=${log.tp} log=${log} arrows=${picture.flights.map((flight) => aimOf(flight, logs)).filter((aim) => aim?.y === log.top + 10)} isStill=${isStill} />`)}
    ${picture.flights.map((flight) => html`<${Label} key=${keyOf(flight)} flight=${flight} logs=${logs} from=${startOf(flight)} />`)}</svg>`;
}

/** A key that changes when a flight changes: a new element is animated (app.css), unless motion is unwanted. */
const keyOf = ({ kind, log = 0, how, isNew }) => `${kind} ${log} ${how} ${isNew}`;

/** The last states of the coordinator, and the pending one, with their places. */
function pillsOf({ states, pending }) {
  let x = 0;
  const shownStates = states.slice(-pillsMax());
  return [...shownStates, ...(pending ? [pending] : [])].map((name, n) => {
    const isNow = n === shownStates.length - 1;
    const width = widthOf(name, isNow) + 2 * SPACE + 2;
    const pill = { name, x, width, isNow, isPending: n === shownStates.length };
    x += width + 2 * GAP;
    return pill;
  });
}

/** Place the batches of a log: the newest that fit, and always the wall. */
function layOutLog(log, top) {
  const measuredCells = log.cells.map((cell) => {
    const lines = [cell.title || shorten(cell.text, CELL_TEXT_MAX) || "record", shorten(cell.sub, 22)];
    return { cell, lines, width: Math.max(84, ...lines.map((textLine) => widthOf(textLine, true) + 2 * SPACE)) };
  });
  let room = pictureWidth() - LEFT - 70;
  let firstShown = measuredCells.length;
  while (firstShown > 0 && room - measuredCells[firstShown - 1].width - GAP >= 0) room -= measuredCells[(firstShown -= 1)].width + GAP;
  const wall = measuredCells.findIndex(({ cell }) => cell.isWall);
  if (wall >= 0 && wall < firstShown) measuredCells.splice(0, firstShown, measuredCells[wall]); // the wall is shown in place of those that don't fit
  else measuredCells.splice(0, firstShown);
  const isCut = log.earlier > 0 || firstShown > 0;
  let x = LEFT;
  const cells = measuredCells.map((measuredCell) => {
    const placedCell = { ...measuredCell, x };
    x += measuredCell.width + GAP;
    return placedCell;
  });
  return { sharers: [], ...log, top, cells, isCut, endX: x, dropped: firstShown };
}

/** Attributes that make a batch a link to the event that wrote it; none in a picture that belongs to no run. */
const linkAttributes = (cell, isStill) => (isStill ? {} : { role: "button", tabindex: "0", onClick: () => goTo(indexOf(cell.i)), onKeyDown: (e) => e.key === "Enter" && goTo(indexOf(cell.i)) });

function Log({ log, arrows, isStill }) {
  const y = log.top + 16;
  const wall = log.cells.find(({ cell }) => cell.isWall);
  const readerX = wall ? wall.x - 20 : log.endX + 20;
  const names = log.readers.length ? shorten(log.readers.join(", "), 24) : "";
  const caption = `THE PARTITION BELIEVES · ${shorten(log.tp)}, ${log.where}`;
  const captionX = Math.max(0, ...arrows.filter(({ x: to, isShort }) => to && !isShort).map(({ x: to }) => to + 36)); // so that no curve crosses the caption
  return html`<g class="log"><text class="cap" x=${captionX && captionX + widthOf(caption, true) < pictureWidth() ? captionX : LEFT} y=${log.top + 2}>${caption}</text>
    ${log.isCut && html`<text class="dim" x="0" y=${y + 40}>…</text>`}
    ${log.cells.map(({ cell, lines, x, width }) => html`<g key=${`${cell.at} ${cell.how}`} class=${`batch ${cell.how} ${hueOf(cell.hue === undefined ? null : cell)}`} ...${linkAttributes(cell, isStill)}>
      <rect x=${x} y=${y} width=${width} height=${CELL} rx="4" /><text class="offset" x=${x + SPACE} y=${y + 20}>${cell.at}</text><text class="what" x=${x + SPACE} y=${y + 42}>${lines[0]}</text><text class="whose" x=${x + SPACE} y=${y + 60}>${lines[1]}</text></g>`)}
    <text class="dim" x=${log.endX + 4} y=${y + 20}>${log.end}${log.cells.length === 0 && ": nothing is written yet"}</text>
    ${wall && html`<path class=${`open-from ${log.bracket.includes("no marker") ? "hangs" : ""}`} d=${`M${wall.x},${y + CELL + 6} v10 H${Math.min(pictureWidth(), Math.max(log.endX + 40, wall.x + 270))}`} /><text class=${`bracket-of ${log.bracket.includes("no marker") ? "hangs" : ""}`} x=${Math.min(wall.x + 8, pictureWidth() - widthOf(log.bracket, true))} y=${y + CELL + 34}>${log.bracket}</text>`}
    ${(names || log.isOpen) && html`<g class="figure" transform=${`translate(${readerX},${wall ? y + CELL + 18 : y + 10})`}><circle cx="0" cy="0" r="7" /><path d="M0,7 v20 M-11,14 h22 M0,27 l-8,15 M0,27 l8,15" /></g>
      <text class="reader" x=${wall ? wall.x + 8 : readerX + 16} y=${wall ? y + CELL + 56 : y + 36}>${names || "a reader"} ${wall ? "waits" : "reads on"}</text>`}
    ${log.sharers.map((sharerText, n) => html`<text class="sharer" x=${LEFT} y=${y + CELL + (log.isOpen ? 80 : 24) + SHARER * n}>${shorten(sharerText, isNarrow() ? 50 : 84)}<title>${sharerText}</title></text>`)}</g>`;
}

/** Where the curve of a flight ends: at its batch, or before the log if it has not arrived; null if not drawn. */
function aimOf(flight, logs) {
  const log = logs[flight.to?.log ?? flight.log ?? 0];
  if (!log) return null;
  const targetCell = flight.to && log.cells[flight.to.cell - log.dropped];
  return targetCell ? { x: targetCell.x + targetCell.width / 2, y: log.top + 10 } : flight.to ? null : { x: log.endX + 20, y: log.top - 20, isShort: true };
}

/** The point right of the coordinator that a record passes, or where it waits. */
const passingPoint = () => ({ x: pictureWidth() - 45, y: TOP.coordinator + 26 });

/** The Bézier curve of a flight: its start, then three points for each part. It comes down on a batch, and crosses no
 *  caption. */
function curveOf(flight, aim, [x, y]) {
  if (flight.kind === "marker") return [[x, y], [[x, y + 60], [aim.x - 10, aim.y - 60], [aim.x - 10, aim.y]]];
  const passing = passingPoint();
  const bend = [[passing.x - 80, y], [passing.x, y + 20], [passing.x, passing.y]];
  return aim.isShort ? [[x, y], bend] : [[x, y], bend, [[passing.x, passing.y + 97], [aim.x + 10, aim.y - 60], [aim.x + 10, aim.y]]];
}

/** The middle of a Bézier curve of one part. */
const middleOf = ([a, [b, c, d]]) => [0, 1].map((n) => (a[n] + 3 * b[n] + 3 * c[n] + d[n]) / 8);

function Flight({ flight, logs, from }) {
  const aim = aimOf(flight, logs);
  if (!aim) return null;
  const name = flight.isNew ? "new" : "old";
  const [start, ...parts] = curveOf(flight, aim, from);
  return html`<path class=${`flight ${flight.kind} ${name} ${flight.how}`} d=${`M${start} ${parts.map((part) => `C${part.join(" ")}`).join(" ")}`} pathLength=${flight.isNew && !aim.isShort && flight.how === "delivered" ? 1 : undefined} marker-end=${aim.isShort ? undefined : `url(#tip-${name})`} />`;
}

/** The label of a flight, on its curve. */
function Label({ flight, logs, from }) {
  const aim = aimOf(flight, logs);
  if (!aim || (flight.log > 0 && flight.how === "delivered")) return null; // the same label as at the first log
  const text = shorten(flight.label, flight.kind === "record" ? 22 : 30);
  const width = widthOf(text) + 20;
  const isRecord = flight.kind === "record";
  const [x, y] = isRecord ? [passingPoint().x, passingPoint().y] : middleOf(curveOf(flight, aim, from));
  const labelX = Math.max(0, Math.min(isRecord ? x - width / 2 : x - width + 10, pictureWidth() - width));
  const labelY = isRecord ? y - 13 : y - 32;
  return html`<g class=${`goes ${flight.isNew ? "new" : "old"} ${flight.how}`}>${(isRecord || flight.how !== "delivered") && html`<rect x=${labelX} y=${labelY} width=${width} height="26" rx="6" />`}<text x=${labelX + 10} y=${labelY + 18}>${text}</text></g>`;
}
