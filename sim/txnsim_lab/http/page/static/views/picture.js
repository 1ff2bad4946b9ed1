// @ts-check
// Draws the picture of the stage: application, coordinator and logs above each other, marker and record as curves into
// the log, and the reader at the batch that it must not pass (the wall).

import { signal } from "@preact/signals";
import { html } from "../html.js";
import { comparison, goToEvent, indexOfPosition, lesson } from "../store.js";
import { hueClassesOf } from "./tape.js";

const narrowScreen = matchMedia("(max-width: 760px)");
const isSmallScreen = signal(narrowScreen.matches);
narrowScreen.addEventListener("change", () => (isSmallScreen.value = narrowScreen.matches));
/** On a small screen, and where two pictures stand beside a lesson, the picture is narrower; its text stays as large. */
const pictureWidth = () => (isSmallScreen.value ? 380 : hasTwoPictures() ? 470 : 660);
const hasTwoPictures = () => Boolean(comparison.value && lesson.value);
const isNarrowPicture = () => isSmallScreen.value || hasTwoPictures();
/** How many states of the coordinator fit. */
const statePillsMax = () => (isNarrowPicture() ? 2 : 4);
const LEFT_MARGIN = 34; // room for the reader's figure left of the first batch
const SECTION_TOPS = { app: 14, coordinator: 92, log: 236 };
const BOX_HEIGHT = 34, PILL_HEIGHT = 30, CELL_HEIGHT = 70, LOG_HEIGHT = 106, READERS_HEIGHT = 56, SHARER_HEIGHT = 22;
const CELL_GAP = 8, TEXT_PADDING = 12;
const PICTURE_FONT = '14px system-ui, "DejaVu Sans", sans-serif';
const TEXT_LENGTH_MAX = 34, CELL_TEXT_LENGTH_MAX = 18;

let measuringContext = null;
/** The width of a text in pixels. */
function textWidth(text, isBold = false) {
  measuringContext ??= document.createElement("canvas").getContext("2d");
  measuringContext.font = isBold ? `700 ${PICTURE_FONT}` : PICTURE_FONT;
  return measuringContext.measureText(text).width;
}
const shortenText = (text, lengthMax = TEXT_LENGTH_MAX) => (text.length > lengthMax ? `${[...text].slice(0, lengthMax - 1).join("")}…` : text);

/** `picture` is what `pictureOf` in picture.js returns for a moment. */
export function Picture({ picture, label = "The picture", isStill = false }) {
  const applicationText = shortenText(picture.app.text, isNarrowPicture() ? 40 : 60);
  const applicationWidth = textWidth(applicationText) + 2 * TEXT_PADDING;
  const statePills = statePillsOf(picture.coordinator);
  const currentPill = statePills.findLast(({ isNow }) => isNow) ?? { x: 0, width: 0 };
  const markerStartX = currentPill.x + currentPill.width / 2;
  let pictureHeight = SECTION_TOPS.log;
  const logLayouts = picture.logs.map((log) => {
    const logLayout = layOutLogCells(log, pictureHeight);
    pictureHeight += LOG_HEIGHT + (log.isOpen || picture.logs.length === 1 ? READERS_HEIGHT : 0); // a single log keeps this room, so that it stands still when a reader comes
    pictureHeight += SHARER_HEIGHT * logLayout.sharers.length;
    return logLayout;
  });
  const flightStart = ({ kind }) => (kind === "record" ? [applicationWidth, SECTION_TOPS.app + 27] : [markerStartX, SECTION_TOPS.coordinator + 10 + PILL_HEIGHT]);
  const coordinatorText = shortenText(picture.coordinator.text, 60);
  const coordinatorWidth = textWidth(coordinatorText);
  return html`<svg class=${`drawn${logLayouts.length > 1 ? " tall" : ""}`} role="group" aria-label=${label} viewBox=${`-2 0 ${pictureWidth() + 4} ${pictureHeight + 4}`}>
    <defs>${["new", "old"].map((name) => html`<marker id=${`tip-${name}`} class=${`tip ${name}`} markerWidth="10" markerHeight="10" refX="6" refY="4" orient="auto" markerUnits="userSpaceOnUse"><path d="M0,0L8,4L0,8z" /></marker>`)}
      <pattern id="stripes" width="8" height="8" patternTransform="rotate(45)" patternUnits="userSpaceOnUse"><rect class="ground" width="8" height="8" /><rect class="stripe" width="3" height="8" /></pattern></defs>
    <text class="cap" x="0" y=${SECTION_TOPS.app}>THE APPLICATION BELIEVES</text>
    <rect class=${`box ${picture.app.how}`} x="0" y=${SECTION_TOPS.app + 10} width=${applicationWidth} height=${BOX_HEIGHT} rx="6" /><text class="app" x=${TEXT_PADDING} y=${SECTION_TOPS.app + 32}>${applicationText}${applicationText !== picture.app.text && html`<title>${picture.app.text}</title>`}</text>
    <text class="cap" x="0" y=${SECTION_TOPS.coordinator}>THE COORDINATOR BELIEVES${picture.coordinator.where && ` · ${picture.coordinator.where}`}</text>
    ${picture.flights.map((flight) => html`<${FlightCurve} key=${flightKey(flight)} flight=${flight} logs=${logLayouts} from=${flightStart(flight)} />`)}
    ${statePills.map(({ x, width, name, isNow, isPending }) => html`<rect class=${`pill${isNow ? " now" : ""}${isPending ? " pending" : ""}`} x=${x} y=${SECTION_TOPS.coordinator + 10} width=${width} height=${PILL_HEIGHT} rx="15" /><text class=${`state-name${isNow ? " now" : ""}`} x=${x + TEXT_PADDING} y=${SECTION_TOPS.coordinator + 30}>${name}</text>`)}
    <text class="coordinator" x=${markerStartX + 14 + coordinatorWidth < pictureWidth() - 90 ? markerStartX + 14 : Math.max(0, markerStartX - 28 - coordinatorWidth)} y=${SECTION_TOPS.coordinator + 62}>${coordinatorText}</text>
    ${logLayouts.map((log) => html`<${LogPicture} key=${log.tp} log=${log} arrows=${picture.flights.map((flight) => flightEnd(flight, logLayouts)).filter((aim) => aim?.y === log.top + 10)} isStill=${isStill} />`)}
    ${picture.flights.map((flight) => html`<${FlightLabel} key=${flightKey(flight)} flight=${flight} logs=${logLayouts} from=${flightStart(flight)} />`)}</svg>`;
}

/** A key that changes when a flight changes: a new element is animated (app.css), unless motion is unwanted. */
const flightKey = ({ kind, log = 0, how, isNew }) => `${kind} ${log} ${how} ${isNew}`;

/** The last states of the coordinator, and the pending one, with their places. */
function statePillsOf({ states, pending }) {
  let pillX = 0;
  const shownStates = states.slice(-statePillsMax());
  return [...shownStates, ...(pending ? [pending] : [])].map((name, n) => {
    const isCurrentState = n === shownStates.length - 1;
    const pillWidth = textWidth(name, isCurrentState) + 2 * TEXT_PADDING + 2;
    const statePill = { name, x: pillX, width: pillWidth, isNow: isCurrentState, isPending: n === shownStates.length };
    pillX += pillWidth + 2 * CELL_GAP;
    return statePill;
  });
}

/** Place the batches of a log: the newest that fit, and always the wall. */
function layOutLogCells(log, top) {
  const measuredCells = log.cells.map((cell) => {
    const cellLines = [cell.title || shortenText(cell.text, CELL_TEXT_LENGTH_MAX) || "record", shortenText(cell.sub, 22)];
    return { cell, lines: cellLines, width: Math.max(84, ...cellLines.map((textLine) => textWidth(textLine, true) + 2 * TEXT_PADDING)) };
  });
  let freeWidth = pictureWidth() - LEFT_MARGIN - 70;
  let firstShownCell = measuredCells.length;
  while (firstShownCell > 0 && freeWidth - measuredCells[firstShownCell - 1].width - CELL_GAP >= 0) freeWidth -= measuredCells[(firstShownCell -= 1)].width + CELL_GAP;
  const lsoCellIndex = measuredCells.findIndex(({ cell }) => cell.isWall);
  if (lsoCellIndex >= 0 && lsoCellIndex < firstShownCell) measuredCells.splice(0, firstShownCell, measuredCells[lsoCellIndex]); // the wall is shown in place of those that don't fit
  else measuredCells.splice(0, firstShownCell);
  const hasHiddenCells = log.earlier > 0 || firstShownCell > 0;
  let cellX = LEFT_MARGIN;
  const placedCells = measuredCells.map((measuredCell) => {
    const placedCell = { ...measuredCell, x: cellX };
    cellX += measuredCell.width + CELL_GAP;
    return placedCell;
  });
  return { sharers: [], ...log, top, cells: placedCells, isCut: hasHiddenCells, endX: cellX, dropped: firstShownCell };
}

/** Attributes that make a batch a link to the event that wrote it; none in a picture that belongs to no run. */
const batchLinkAttributes = (cell, isStill) => (isStill ? {} : { role: "button", tabindex: "0", onClick: () => goToEvent(indexOfPosition(cell.i)), onKeyDown: (e) => e.key === "Enter" && goToEvent(indexOfPosition(cell.i)) });

function LogPicture({ log, arrows, isStill }) {
  const cellY = log.top + 16;
  const lsoCell = log.cells.find(({ cell }) => cell.isWall);
  const readerX = lsoCell ? lsoCell.x - 20 : log.endX + 20;
  const readerNames = log.readers.length ? shortenText(log.readers.join(", "), 24) : "";
  const logCaption = `THE PARTITION BELIEVES · ${shortenText(log.tp)}, ${log.where}`;
  const captionX = Math.max(0, ...arrows.filter(({ x: to, isShort }) => to && !isShort).map(({ x: to }) => to + 36)); // so that no curve crosses the caption
  return html`<g class="log"><text class="cap" x=${captionX && captionX + textWidth(logCaption, true) < pictureWidth() ? captionX : LEFT_MARGIN} y=${log.top + 2}>${logCaption}</text>
    ${log.isCut && html`<text class="dim" x="0" y=${cellY + 40}>…</text>`}
    ${log.cells.map(({ cell, lines, x, width }) => html`<g key=${`${cell.at} ${cell.how}`} class=${`batch ${cell.how} ${hueClassesOf(cell.hue === undefined ? null : cell)}`} ...${batchLinkAttributes(cell, isStill)}>
      <rect x=${x} y=${cellY} width=${width} height=${CELL_HEIGHT} rx="4" /><text class="offset" x=${x + TEXT_PADDING} y=${cellY + 20}>${cell.at}</text><text class="what" x=${x + TEXT_PADDING} y=${cellY + 42}>${lines[0]}</text><text class="whose" x=${x + TEXT_PADDING} y=${cellY + 60}>${lines[1]}</text></g>`)}
    <text class="dim" x=${log.endX + 4} y=${cellY + 20}>${log.end}${log.cells.length === 0 && ": nothing is written yet"}</text>
    ${lsoCell && html`<path class=${`open-from ${log.bracket.includes("no marker") ? "hangs" : ""}`} d=${`M${lsoCell.x},${cellY + CELL_HEIGHT + 6} v10 H${Math.min(pictureWidth(), Math.max(log.endX + 40, lsoCell.x + 270))}`} /><text class=${`bracket-of ${log.bracket.includes("no marker") ? "hangs" : ""}`} x=${Math.min(lsoCell.x + 8, pictureWidth() - textWidth(log.bracket, true))} y=${cellY + CELL_HEIGHT + 34}>${log.bracket}</text>`}
    ${(readerNames || log.isOpen) && html`<g class="figure" transform=${`translate(${readerX},${lsoCell ? cellY + CELL_HEIGHT + 18 : cellY + 10})`}><circle cx="0" cy="0" r="7" /><path d="M0,7 v20 M-11,14 h22 M0,27 l-8,15 M0,27 l8,15" /></g>
      <text class="reader" x=${lsoCell ? lsoCell.x + 8 : readerX + 16} y=${lsoCell ? cellY + CELL_HEIGHT + 56 : cellY + 36}>${lsoCell ? (readerNames ? `${readerNames} waits` : "readers stop here") : `${readerNames} reads on`}</text>`}
    ${log.sharers.map((sharerText, n) => html`<text class="sharer" x=${LEFT_MARGIN} y=${cellY + CELL_HEIGHT + (log.isOpen ? 80 : 24) + SHARER_HEIGHT * n}>${shortenText(sharerText, isNarrowPicture() ? 50 : 84)}<title>${sharerText}</title></text>`)}</g>`;
}

/** Where the curve of a flight ends: at its batch, or before the log if it has not arrived; null if not drawn. */
function flightEnd(flight, logs) {
  const targetLog = logs[flight.to?.log ?? flight.log ?? 0];
  if (!targetLog) return null;
  const targetCell = flight.to && targetLog.cells[flight.to.cell - targetLog.dropped];
  return targetCell ? { x: targetCell.x + targetCell.width / 2, y: targetLog.top + 10 } : flight.to ? null : { x: targetLog.endX + 20, y: targetLog.top - 20, isShort: true };
}

/** The point right of the coordinator that a record passes, or where it waits. */
const passingPoint = () => ({ x: pictureWidth() - 45, y: SECTION_TOPS.coordinator + 26 });

/** The Bézier curve of a flight: its start, then three points for each part. It comes down on a batch, and crosses no
 *  caption. */
function flightCurve(flight, aim, [x, y]) {
  if (flight.kind === "marker") return [[x, y], [[x, y + 60], [aim.x - 10, aim.y - 60], [aim.x - 10, aim.y]]];
  const passedPoint = passingPoint();
  const bendPoints = [[passedPoint.x - 80, y], [passedPoint.x, y + 20], [passedPoint.x, passedPoint.y]];
  return aim.isShort ? [[x, y], bendPoints] : [[x, y], bendPoints, [[passedPoint.x, passedPoint.y + 97], [aim.x + 10, aim.y - 60], [aim.x + 10, aim.y]]];
}

/** The middle of a Bézier curve of one part. */
const curveMiddle = ([a, [b, c, d]]) => [0, 1].map((n) => (a[n] + 3 * b[n] + 3 * c[n] + d[n]) / 8);

function FlightCurve({ flight, logs, from }) {
  const endPoint = flightEnd(flight, logs);
  if (!endPoint) return null;
  const ageClass = flight.isNew ? "new" : "old";
  const [start, ...parts] = flightCurve(flight, endPoint, from);
  return html`<path class=${`flight ${flight.kind} ${ageClass} ${flight.how}`} d=${`M${start} ${parts.map((part) => `C${part.join(" ")}`).join(" ")}`} pathLength=${flight.isNew && !endPoint.isShort && flight.how === "delivered" ? 1 : undefined} marker-end=${endPoint.isShort ? undefined : `url(#tip-${ageClass})`} />`;
}

/** The label of a flight, on its curve. */
function FlightLabel({ flight, logs, from }) {
  const endPoint = flightEnd(flight, logs);
  if (!endPoint || (flight.log > 0 && flight.how === "delivered")) return null; // the same label as at the first log
  const labelText = shortenText(flight.label, flight.kind === "record" ? 22 : 30);
  const labelWidth = textWidth(labelText) + 20;
  const isRecord = flight.kind === "record";
  const [x, y] = isRecord ? [passingPoint().x, passingPoint().y] : curveMiddle(flightCurve(flight, endPoint, from));
  const labelX = Math.max(0, Math.min(isRecord ? x - labelWidth / 2 : x - labelWidth + 10, pictureWidth() - labelWidth));
  const labelY = isRecord ? y - 13 : y - 32;
  return html`<g class=${`goes ${flight.isNew ? "new" : "old"} ${flight.how}`}>${(isRecord || flight.how !== "delivered") && html`<rect x=${labelX} y=${labelY} width=${labelWidth} height="26" rx="6" />`}<text x=${labelX + 10} y=${labelY + 18}>${labelText}</text></g>`;
}
