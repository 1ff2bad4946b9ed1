// @ts-check
// Draws the picture of the stage: application, coordinator and logs above each other, on one axis
// of time, the marker as a curve into the log, a record on its way between application and coordinator, and the reader at the batch that it must not pass (the wall).

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";
import { comparison, goToEvent, indexOfPosition, lesson } from "../store.js";
import { WORD_MEANINGS, stateWithMeaning } from "../words.js";
import { hueClassesOf } from "./tape.js";

const narrowScreen = matchMedia("(max-width: 760px)");
const isSmallScreen = signal(narrowScreen.matches);
narrowScreen.addEventListener("change", () => (isSmallScreen.value = narrowScreen.matches));
/** On a small screen, and where two pictures stand side by side, the picture is narrower: one row of tape, no axis. */
const hasTwoPictures = () => Boolean(comparison.value && lesson.value);
const isNarrowPicture = () => isSmallScreen.value || hasTwoPictures();
const pictureWidth = () => (isSmallScreen.value ? 380 : hasTwoPictures() ? 470 : lesson.value ? 640 : 790);
/** The names of the rows stand left of the axis; in a narrow picture each above its row. */
const NAMES_WIDTH = 136, NARROW_MARGIN = 20;
const leftMargin = () => (isNarrowPicture() ? NARROW_MARGIN : NAMES_WIDTH);
const TOPS = { app: -2, coordinator: 60, log: 160 }, NARROW_TOPS = { app: 14, coordinator: 60, log: 130 };
const SPAN_HEIGHT = 30, CELL_HEIGHT = 70, LOG_HEIGHT = 106, READERS_HEIGHT = 56, SHARER_HEIGHT = 22, AXIS_HEIGHT = 22;
const CELL_GAP = 8, TICK_GAP = 12, TICK_LABEL_WIDTH = 56, TEXT_PADDING = 12;
/** On a small screen the text stands closer to the edge of its batch, so that more batches fit. */
const cellPadding = () => (isNarrowPicture() ? 7 : TEXT_PADDING);
/** Rises when the typeface is there: texts have another width then. */
const typefaceLoads = signal(0);
document.fonts.addEventListener("loadingdone", () => (typefaceLoads.value += 1));
const TEXT_LENGTH_MAX = 34, CELL_TEXT_LENGTH_MAX = 18, NARROW_TEXT_LENGTH_MAX = 50;

let measuringContext = null, pictureFont = "";
/** The width of a text in pixels. */
function textWidth(text, isBold = false) {
  measuringContext ??= document.createElement("canvas").getContext("2d");
  pictureFont ||= `14px ${getComputedStyle(document.body).fontFamily}`; // the size is --drawn of app.css
  measuringContext.font = isBold ? `700 ${pictureFont}` : pictureFont;
  return measuringContext.measureText(text).width;
}
const SHARER_LENGTH_MAX = 84, NARROW_SHARER_LENGTH_MAX = 50;
/** A text in one line or two: what no longer fits into the second is left out. */
function linesOf(text, lengthMax) {
  if (text.length <= lengthMax) return [text];
  const firstLength = [" · ", " "].map((gap) => text.lastIndexOf(gap, lengthMax)).find((gapIndex) => gapIndex > 0) ?? lengthMax;
  return [text.slice(0, firstLength), shortenText(text.slice(firstLength).trim(), lengthMax)];
}
const shortenText = (text, lengthMax = TEXT_LENGTH_MAX) => (text.length > lengthMax ? `${[...text].slice(0, lengthMax - 1).join("")}…` : text);

/** Of the current state Empty the meaning is told here, too: an id is Empty whose transactions are all over. */
const stateText = ({ name, pending }, isCurrent) => (pending ? `${name} → ${pending}` : name === "Empty" && isCurrent ? stateWithMeaning(name) : name);

/** A span with its shown text and the width that this needs. */
const measureSpan = (span, text, meaning = text) => ({ ...span, shown: shortenText(text), full: text, meaning, width: textWidth(shortenText(text), true) + 2 * TEXT_PADDING });
const measureCell = (cell) => {
  const lines = [cell.title || shortenText(cell.text, CELL_TEXT_LENGTH_MAX) || "record", shortenText(isNarrowPicture() ? cell.sub.split(": ")[0] : cell.sub, 22)];
  return { cell, lines, tick: cell.tick, width: Math.max(isNarrowPicture() ? 60 : 84, ...lines.map((line) => textWidth(line, true) + 2 * cellPadding())) };
};

/** Where each tick of the axis stands: behind the one before, and behind what ends there in each row. */
function positionsOfTicks(tickCount, rows) {
  const tickPositions = [];
  for (let tick = 0; tick < tickCount; tick += 1) {
    let x = tick ? tickPositions[tick - 1] + TICK_GAP : leftMargin();
    for (const row of rows) {
      const itemIndex = row.findIndex((item) => item.tick === tick);
      if (itemIndex > 0) x = Math.max(x, tickPositions[row[itemIndex - 1].tick] + row[itemIndex - 1].width + CELL_GAP);
    }
    tickPositions.push(x);
  }
  return tickPositions;
}

/** The batches of a log one behind the other, without an axis. None is left out: a picture that is too wide scrolls (app.css). */
function placeWithoutAxis(cells) {
  let x = leftMargin();
  return cells.map((cell, n) => {
    if (n && cell.cell.number > cells[n - 1].cell.number + 1) x += TICK_GAP; // for the sign that some are left out
    const placedCell = { ...cell, x };
    x += cell.width + CELL_GAP;
    return placedCell;
  });
}

/** `picture` is what `pictureOf` in picture.js returns for a moment. `isStep`: the moment ends a step of a story, so
 *  what has happened in it is played: a message travels, and what it brings stands there when it has arrived (app.css). */
export function Picture({ picture, label = "The picture", isStill = false, isStep = isStill }) {
  const isNarrow = isNarrowPicture();
  void typefaceLoads.value;
  const boxRef = useRef(null);
  const tops = isNarrow ? NARROW_TOPS : TOPS;
  const appSpans = picture.app.spans.map((span) => measureSpan(span, span.text));
  const stateSpans = picture.coordinator.spans.map((span, n, spans) => measureSpan(span, stateText(span, n === spans.length - 1), stateWithMeaning(span.name)));
  const cellRows = picture.logs.map(({ cells }) => cells.map(measureCell));
  const tickPositions = positionsOfTicks(picture.ticks.length, [appSpans, stateSpans, ...cellRows]);
  const placedCells = cellRows.map((cells) => (isNarrow ? placeWithoutAxis(cells) : cells.map((cell) => ({ ...cell, x: tickPositions[cell.tick] }))));
  const placedSpans = isNarrow ? [] : [appSpans, stateSpans].flat();
  const coordinatorTextX = stateSpans.length ? tickPositions[stateSpans.at(-1).tick] + TEXT_PADDING : leftMargin();
  const endX = Math.max(0, isNarrow ? 0 : coordinatorTextX + textWidth(picture.coordinator.text), ...placedSpans.map(({ tick, width }) => tickPositions[tick] + width), ...placedCells.flat().map(({ x, width }) => x + width + (isNarrow ? 24 : 30)));
  const width = Math.max(pictureWidth(), endX);
  useEffect(() => { // where the picture is wider than its place, its newest end is in sight
    boxRef.current.scrollLeft = (endX / width) * boxRef.current.scrollWidth - boxRef.current.clientWidth;
    pinNames({ currentTarget: boxRef.current });
  });
  let height = tops.log;
  const logs = picture.logs.map((log, n) => {
    const sharerLines = (log.sharers ?? []).flatMap((text) => linesOf(text, isNarrow ? NARROW_SHARER_LENGTH_MAX : SHARER_LENGTH_MAX).map((line) => ({ line, text })));
    const readers = log.isOpen || picture.logs.length === 1 ? log.readers : ""; // of two logs, only where readers are held: the text stays large
    const laidOut = { ...log, readers, sharerLines, top: height, cells: placedCells[n], width, endX: (placedCells[n].at(-1)?.x ?? leftMargin() - CELL_GAP) + (placedCells[n].at(-1)?.width ?? 0) + CELL_GAP };
    height += LOG_HEIGHT + (readers || picture.logs.length === 1 ? READERS_HEIGHT : 0) + SHARER_HEIGHT * sharerLines.length; // a single log keeps this room, so that it stands still when a reader comes
    return laidOut;
  });
  const flights = isNarrow ? [] : picture.flights.map((flight) => ({ flight, way: wayOf(flight, logs, tickPositions, stateSpans) })).filter(({ way }) => way);
  const waitingFlight = isNarrow ? picture.flights.find(({ how }) => how !== "delivered") : undefined; // no curves here: what is on its way has a line of its own
  const applicationText = shortenText(picture.app.text, isNarrow ? NARROW_TEXT_LENGTH_MAX : 60);
  const shownHeight = height + (isNarrow ? 0 : AXIS_HEIGHT);
  return html`<div class="drawing" ref=${boxRef} onScroll=${pinNames}><svg preserveAspectRatio="xMinYMin" style=${{ "--width": width, "--height": shownHeight }} class=${`drawn${logs.length > 1 ? " tall" : ""}`} role="group" aria-label=${label} viewBox=${`-2 0 ${width + 4} ${shownHeight}`}>
    <defs>${["new", "old"].map((name) => html`<marker id=${`tip-${name}`} class=${`tip ${name}`} markerWidth="10" markerHeight="10" refX="6" refY="4" orient="auto" markerUnits="userSpaceOnUse"><path d="M0,0L8,4L0,8z" /></marker>`)}
      <pattern id="stripes" width="8" height="8" patternTransform="rotate(45)" patternUnits="userSpaceOnUse"><rect class="ground" width="8" height="8" /><rect class="stripe" width="3" height="8" /></pattern></defs>
    ${!isNarrow && html`<rect class="names" x="-2" y="0" width=${NAMES_WIDTH - 6} height=${shownHeight} />`}
    ${flights.map(({ flight, way }) => html`<${FlightCurve} key=${flightKey(flight)} flight=${flight} way=${way} />`)}
    <${RowName} y=${tops.app} name="APPLICATION" details=${[picture.app.id]} isNarrow=${isNarrow} />
    ${isNarrow || !appSpans.length ? html`<text class=${picture.app.id ? "app" : "dim"} x=${isNarrow ? 0 : leftMargin()} y=${tops.app + (isNarrow ? 22 : 32)}>${applicationText}</text>`
      : appSpans.map((span, n) => html`<${Span} key=${`${n} ${span.full}`} span=${span} kind=${`box ${span.how}`} textKind="app" x=${tickPositions[span.tick]} y=${tops.app + 10} endX=${n < appSpans.length - 1 ? tickPositions[appSpans[n + 1].tick] - CELL_GAP / 2 : width} round="6" />`)}
    <${RowName} y=${tops.coordinator} name="COORDINATOR" details=${[picture.coordinator.where, isNarrow && stateSpans.length > 0 && (stateSpans.at(-1).pending ?? stateSpans.at(-1).name)]} isNarrow=${isNarrow} />
    ${isNarrow ? html`<text class=${picture.app.id ? "coordinator" : "dim"} x="0" y=${tops.coordinator + 22}>${shortenText(picture.coordinator.text, NARROW_TEXT_LENGTH_MAX)}</text>
      ${waitingFlight && html`<${FlightLabel} key=${flightKey(waitingFlight)} label=${{ flight: waitingFlight, text: shortenText(waitingFlight.label, NARROW_TEXT_LENGTH_MAX), x: 0, y: tops.coordinator + 32, width: textWidth(shortenText(waitingFlight.label, NARROW_TEXT_LENGTH_MAX)) + 20 }} />`}` : html`
      ${stateSpans.map((span, n) => html`<${Span} key=${`${n} ${span.full}`} span=${span} kind=${`pill${n === stateSpans.length - 1 ? " now" : ""}${span.pending ? " pending" : ""}`} textKind=${`state-name${n === stateSpans.length - 1 ? " now" : ""}`} x=${tickPositions[span.tick]} y=${tops.coordinator + 8} endX=${n < stateSpans.length - 1 ? tickPositions[stateSpans[n + 1].tick] - CELL_GAP : width} round="15" />`)}
      <text class=${picture.app.id ? "coordinator" : "dim"} x=${coordinatorTextX} y=${tops.coordinator + (stateSpans.length ? 56 : 30)}>${picture.coordinator.text}</text>`}
    ${logs.map((log, n) => html`<${LogPicture} key=${log.tp} log=${log} arrivals=${isStep ? newArrivals(picture.flights, n) : []} isStill=${isStill} />`)}
    ${flightLabels(flights, width).map((label) => html`<${FlightLabel} key=${flightKey(label.flight)} label=${label} />`)}
    ${!isNarrow && shownTicks(picture.ticks, tickPositions).map(({ x, text }) => html`<text class="tick" x=${x} y=${height + AXIS_HEIGHT - 8}>${text}</text>`)}</svg></div>`;
}

/** The name of a row and what is told of it: left of the axis one below the other, in a narrow picture in one line above the row. */
function RowName({ y, name, details, isNarrow }) {
  const shownDetails = details.filter(Boolean);
  if (isNarrow) return html`<text class="cap" x="0" y=${y}>${[name, ...shownDetails.map((detail) => shortenText(detail))].join(" · ")}</text>`;
  return html`<g><title>${WORD_MEANINGS[name.toLowerCase()]}</title><text class="cap" x="0" y=${y + 22}>${name}</text></g>${shownDetails.map((detail, n) => {
    const shownDetail = fitText(detail, NAMES_WIDTH - 14);
    return html`<text class="cap detail" x="0" y=${y + 41 + 19 * n}>${shownDetail}${shownDetail !== detail && html`<title>${detail}</title>`}</text>`;
  })}`;
}

/** A text that is no wider: what does not fit is left out at its end. An id may have 32,767 letters, so it is shortened first. */
function fitText(text, widthMax) {
  let fitting = shortenText(text);
  while (textWidth(fitting) > widthMax) fitting = `${fitting.slice(0, -2)}…`;
  return fitting;
}

/** Keep the names of the rows at the left edge of what is in sight. */
function pinNames({ currentTarget: box }) {
  const svg = box.firstElementChild;
  svg.style.setProperty("--pinned", `${Math.max(0, (box.getBoundingClientRect().left - svg.getBoundingClientRect().left) / svg.getScreenCTM().a)}px`);
}

/** The labels of the axis that differ from the one before, and have room. */
function shownTicks(labels, tickPositions) {
  const tickLabels = [];
  labels.forEach((text, tick) => {
    const lastLabel = tickLabels.at(-1);
    if (text && text !== lastLabel?.text && (!lastLabel || tickPositions[tick] - lastLabel.x > TICK_LABEL_WIDTH)) tickLabels.push({ x: tickPositions[tick], text });
  });
  return tickLabels;
}

/** A stretch of time in a row: it reaches to the next one, the last one to the end. */
const Span = ({ span, kind, textKind, x, y, endX, round }) => html`<rect class=${kind} x=${x} y=${y} width=${Math.max(8, endX - x)} height=${SPAN_HEIGHT} rx=${round} /><g>${span.shown !== span.meaning && html`<title>${span.meaning}</title>`}<text class=${textKind} x=${x + TEXT_PADDING} y=${y + 20}>${span.shown}</text></g>`;

/** A key that changes when a flight changes: a new element is animated (app.css), unless motion is unwanted. */
const flightKey = ({ kind, log = 0, how, isNew, to }) => `${kind} ${log} ${how} ${isNew} ${to?.number}`;

/** The numbers of the batches of a log that messages have just brought. */
const newArrivals = (flights, logIndex) => flights.filter(({ isNew, how, to }) => isNew && how === "delivered" && to?.log === logIndex).map(({ to }) => to.number);

/** Attributes that make a batch a link to the event that wrote it; none in a picture that belongs to no run. */
const batchLinkAttributes = (cell, isStill) => (isStill ? {} : { role: "button", tabindex: "0", onClick: () => goToEvent(indexOfPosition(cell.i)), onKeyDown: (e) => e.key === "Enter" && goToEvent(indexOfPosition(cell.i)) });

function LogPicture({ log, arrivals, isStill }) {
  const isNarrow = isNarrowPicture();
  const cellY = log.top + 16;
  const lsoCell = log.cells.find(({ cell }) => cell.isWall);
  const bracketX = lsoCell ? Math.max(leftMargin(), Math.min(lsoCell.x + 8, log.width - textWidth(log.bracket, true))) : log.endX;
  const { x: readerX, textX: readerTextX } = readerPlace(log, lsoCell, bracketX);
  const leftOutCount = log.count - log.cells.length;
  const details = [isNarrow ? null : log.tp, log.where, leftOutCount > 0 && `${log.cells.length} of ${log.count} shown`];
  return html`<g class=${`log${arrivals.length ? " expects" : ""}`}><${RowName} y=${isNarrow ? log.top + 5 : cellY - 6} name=${isNarrow ? `PARTITION ${shortenText(log.tp)}` : "PARTITION"} details=${details} isNarrow=${isNarrow} />
    ${log.cells.map(({ cell, x }, n) => cell.number > (n ? log.cells[n - 1].cell.number + 1 : 0) && html`<text class="dim" x=${x - 14} y=${cellY + 40}>…</text>`)}
    ${log.cells.map(({ cell, lines, x, width }) => html`<g key=${cell.number} class=${`batch ${cell.how}${cell.isWrong ? " wrong-data" : ""}${arrivals.includes(cell.number) ? " lands" : ""} ${hueClassesOf(cell.hue === undefined ? null : cell)}`} ...${batchLinkAttributes(cell, isStill)}>
      <rect x=${x} y=${cellY} width=${width} height=${CELL_HEIGHT} rx="4" /><text class="offset" x=${x + cellPadding()} y=${cellY + 20}>${cell.at}</text><text class="what" x=${x + cellPadding()} y=${cellY + 42}>${lines[0]}</text><text class="whose" x=${x + cellPadding()} y=${cellY + 60}>${lines[1]}</text></g>`)}
    <text class="dim" x=${log.endX + 4} y=${cellY + 20}>${log.end}${log.cells.length === 0 && ": nothing is written yet"}</text>
    ${lsoCell && html`<path class=${`open-from ${log.isHanging ? "hangs" : ""}`} d=${`M${lsoCell.x},${cellY + CELL_HEIGHT + 6} v10 H${Math.min(log.width, Math.max(log.endX + 40, lsoCell.x + 270))}`} /><text class=${`bracket-of ${log.isHanging ? "hangs" : ""}`} x=${bracketX} y=${cellY + CELL_HEIGHT + 34}>${log.bracket}</text>`}
    ${log.readers && html`<g class="figure" style=${{ transform: `translate(${readerX}px, ${cellY + CELL_HEIGHT + 18}px)` }} transform=${`translate(${readerX},${cellY + CELL_HEIGHT + 18})`}><circle cx="0" cy="0" r="7" /><path d="M0,7 v20 M-11,14 h22 M0,27 l-8,15 M0,27 l8,15" /></g>
      <text key=${log.readers} class="reader" x=${readerTextX} y=${cellY + CELL_HEIGHT + 56}>${shortenText(log.readers)}</text>`}
    ${log.sharerLines.map(({ line, text }, n) => html`<text class="sharer" x=${leftMargin()} y=${cellY + CELL_HEIGHT + (log.readers ? 80 : 24) + SHARER_HEIGHT * n}>${line}<title>${text}</title></text>`)}</g>`;
}

/** Where the reader stands, and its words: before the batch that it must not pass, or at the end, behind all that it gets. */
function readerPlace(log, lsoCell, bracketX) {
  if (lsoCell) return { x: Math.max(10, Math.min(lsoCell.x, bracketX) - 20), textX: bracketX };
  const x = log.isOpen ? leftMargin() : log.endX - CELL_GAP;
  const wordsWidth = textWidth(log.readers, true);
  return { x, textX: x - 18 - wordsWidth >= 0 ? x - 18 - wordsWidth : x + 18 };
}

/** The way of a message: from the moment when it was sent to its batch, or to where it is held; null if not drawn. */
function wayOf(flight, logs, tickPositions, stateSpans) {
  const targetLog = logs[flight.to?.log ?? flight.log ?? 0];
  if (!targetLog) return null;
  const targetCell = flight.to && targetLog.cells.find(({ cell }) => cell.number === flight.to.number);
  if (flight.to && !targetCell) return null;
  const logY = targetLog.top + 14;
  const targetX = targetCell && targetCell.x + targetCell.width / 2;
  if (flight.isByOperator) return curveWay([targetX, logY - 28], [targetX, logY - 20], [targetX, logY - 10], [targetX, logY]);
  if (flight.kind === "record") return recordWay((tickPositions[flight.tick] ?? leftMargin()) + 8, targetX, logY, stateSpans.map(({ tick }) => tickPositions[tick] - CELL_GAP / 2));
  const decided = stateSpans.findLast(({ name, tick }) => name.startsWith("Prepare") && (!targetCell || tick <= targetCell.tick)) ?? (targetCell ? null : stateSpans.at(-1));
  const startX = (decided ? tickPositions[decided.tick] : (targetCell?.x ?? leftMargin())) + 24, startY = TOPS.coordinator + 8 + SPAN_HEIGHT;
  const end = targetCell ? [targetX, logY] : [startX + 30, logY - 40];
  return curveWay([startX, startY], [startX, startY + 46], [end[0], end[1] - 64], end, !targetCell);
}

const curveWay = (start, bend, lastBend, end, isShort = false) => ({ path: `M${start} C${bend} ${lastBend} ${end}`, end, isShort });

/** The way of a record: along the lane between application and coordinator while it is on its way, then down between two states of the
 *  coordinator, so that one sees that it does not come from there. */
function recordWay(startX, targetX, logY, gapPositions) {
  const appBottom = TOPS.app + 10 + SPAN_HEIGHT, laneY = (appBottom + TOPS.coordinator + 8) / 2;
  if (targetX === null) return { ...curveWay([startX, appBottom], [startX, laneY], [startX, laneY], [startX + 14, laneY], true), labelY: laneY - 12 };
  const crossX = gapPositions.filter((x) => x >= startX - CELL_GAP && x <= targetX).at(-1) ?? gapPositions[0] ?? startX;
  const textBottom = TOPS.coordinator + SPAN_HEIGHT + 32, turn = Math.max(-10, Math.min(10, crossX - startX));
  return { path: `M${startX},${appBottom} C${startX},${laneY} ${startX},${laneY} ${startX + turn},${laneY} H${crossX - turn} Q${crossX},${laneY} ${crossX},${laneY + 12} V${textBottom} C${crossX},${logY - 20} ${targetX},${textBottom} ${targetX},${logY}`, end: [targetX, logY], isShort: false };
}

const FlightCurve = ({ flight, way: { path, isShort } }) => {
  const ageClass = flight.isNew ? "new" : "old";
  return html`<path class=${`flight ${flight.kind} ${ageClass} ${flight.how}`} d=${path} pathLength=${flight.isNew && !isShort && flight.how === "delivered" ? 1 : undefined} marker-end=${isShort ? undefined : `url(#tip-${ageClass})`} />
    ${flight.isNew && html`<circle class="traveller" r="7" style=${{ offsetPath: `path("${path}")` }} />`}`;
};

/** The labels of flights, beside the ends of their curves; one that would lie on another stands right of it. */
function flightLabels(flights, width) {
  const labels = [];
  for (const { flight, way } of flights) {
    if (flight.log > 0 && flight.how === "delivered") continue; // the same label as at the first log
    const text = shortenText(flight.label, 30);
    const labelWidth = textWidth(text) + 20;
    const y = way.labelY ?? way.end[1] - (way.isShort ? 26 : flight.isByOperator ? 54 : 46);
    let x = way.end[0] + (flight.isByOperator ? -labelWidth / 2 : 8);
    for (const otherLabel of labels) if (Math.abs(otherLabel.y - y) < 28 && x < otherLabel.x + otherLabel.width && otherLabel.x < x + labelWidth) x = otherLabel.x + otherLabel.width + 4;
    labels.push({ flight, text, x: Math.max(0, Math.min(x, width - labelWidth)), y, width: labelWidth });
  }
  return labels;
}

const FlightLabel = ({ label: { flight, text, x, y, width } }) => html`<g class=${`goes ${flight.isNew ? "new" : "old"} ${flight.how}`}>${flight.how !== "delivered" && html`<rect x=${x} y=${y} width=${width} height="24" rx="6" />`}<text x=${x + 10} y=${y + 17}>${text}</text></g>`;
