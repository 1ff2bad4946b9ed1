// @ts-check
// Lanes: one per client, coordinator and partition. Messages are arrows with their names; a held message is dashed up
// to its release, or to the cursor.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";
import { laneTitle, lanesDrawing } from "../lanes.js";
import { eventCount, goToEvent, indexOfPosition, judgedMoment } from "../store.js";
import { eventLine, millisecondsText } from "../words.js";
import { hasUserData } from "../stage.js";
import { transactionLabel } from "../tape.js";
import { NothingYet } from "./practise.js";
import { hueClassesOf } from "./tape.js";

const LANE_HEIGHT = 52, LANES_TOP = 40, EVENTS_PER_TICK = 5;
const COLUMN_WIDTHS = [14, 22, 34, 52, 80];
const zoomLevel = signal(3);
const showsHousekeeping = signal(false);
const EVENT_SIGNS = { "log.append": "■", "log.reject": "✕", "log.truncate": "✂", "log.lso": "▸", "txn.complete": "●", "node.down": "✕", "node.up": "○", "fault.arm": "⚑", "fault.release": "▶", "client.deliver": "▼", "marker.refused": "✕", "msg.drop": "✕", "msg.dup": "‖" };
const eventSign = ({ k, d }) => (k === "marker.written" ? (d.committed ? "✓" : "✕") : EVENT_SIGNS[k] ?? "·");
const hueClass = (t) => hueClassesOf(t).split(" ")[0];

export const Lanes = () => (hasUserData(judgedMoment.value.clusterState) ? html`<${DrawnLanes} />` : html`<${NothingYet} title="No message of a client yet">What clients and brokers send each other is drawn here, a line for each of them.<//>`);

function DrawnLanes() {
  const laneBoxRef = useRef(null);
  void eventCount.value;
  const { index: end, open } = judgedMoment.value;
  const laneDrawing = lanesDrawing(end, showsHousekeeping.value);
  const columnWidth = COLUMN_WIDTHS[zoomLevel.value];
  const drawingWidth = (laneDrawing.events.length + 1.5) * columnWidth;
  const drawingHeight = laneDrawing.lanes.length * LANE_HEIGHT + LANES_TOP;
  const xOfColumn = (n) => (n + 1) * columnWidth;
  const yOfLane = new Map(laneDrawing.lanes.map((name, n) => [name, n * LANE_HEIGHT + LANES_TOP + 22]));
  useEffect(() => {
    laneBoxRef.current.scrollLeft = drawingWidth;
  }, [end, columnWidth, laneDrawing.lanes.length]);
  const zoomBy = (steps) => (zoomLevel.value = Math.max(0, Math.min(COLUMN_WIDTHS.length - 1, zoomLevel.value + steps)));
  const onKeyDown = (event) => {
    if (event.key === "+" || event.key === "=") zoomBy(1);
    else if (event.key === "-") zoomBy(-1);
    else return;
    event.preventDefault();
  };
  const hangingTransactions = new Set(open.filter((verdict) => verdict.verdict === "hanging").map((verdict) => `${verdict.partition} ${verdict.producer_id}`));
  const sharedProperties = { x: xOfColumn, row: yOfLane, end: laneDrawing.events.length, step: columnWidth };
  return html`
    <div class="bar"><span role="status">${laneDrawing.events.length ? `${laneDrawing.events.length} events, from ${millisecondsText(laneDrawing.events[0])} to ${millisecondsText(laneDrawing.events.at(-1))}` : "No event to draw."}</span>
      <span><button id="farther" disabled=${zoomLevel.value === 0} onClick=${() => zoomBy(-1)}>− zoom out</button> <button id="nearer" disabled=${zoomLevel.value === COLUMN_WIDTHS.length - 1} onClick=${() => zoomBy(1)}>+ zoom in</button></span>
      <label><input type="checkbox" id="housekeeping" checked=${showsHousekeeping.value} onChange=${(e) => (showsHousekeeping.value = e.target.checked)} /> with housekeeping</label></div>
    <div class="lanes"><div class="lane-names" aria-hidden="true" style=${{ paddingTop: `${LANES_TOP}px` }}>${laneDrawing.lanes.map((name) => html`<div title=${name} style=${{ height: `${LANE_HEIGHT}px` }}>${laneTitle(name)}</div>`)}</div>
      <div class="lane-box" ref=${laneBoxRef} tabindex="0" role="figure" aria-label="What happened, in lanes" onKeyDown=${onKeyDown}>
      <svg width=${drawingWidth} height=${drawingHeight} aria-hidden="true">
        <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" /></marker></defs>
        ${laneDrawing.events.map((event, n) => n % EVENTS_PER_TICK === 0 && html`<text class="tick" x=${xOfColumn(n)} y="12">${millisecondsText(event)}</text>`)}
        ${laneDrawing.steps.map(({ event, x: n }) => html`<g class="story-step"><title>${event.d.text}</title><line x1=${xOfColumn(n)} x2=${xOfColumn(n)} y1="18" y2=${drawingHeight} /></g>`)}
        ${laneDrawing.lanes.map((name) => html`<line class="lane" x1="0" x2=${drawingWidth} y1=${yOfLane.get(name)} y2=${yOfLane.get(name)} />`)}
        ${laneDrawing.states.map((bar) => html`<${LaneBar} ...${sharedProperties} bar=${bar} dy=${7} text=${bar.text} title=${`${bar.id}: ${bar.text}`} />`)}
        ${laneDrawing.open.map((bar) => html`<${LaneBar} ...${sharedProperties} bar=${bar} dy=${7} text=${`${bar.t ? transactionLabel(bar.t) : `producer ${bar.pid}`} open`} hanging=${bar.x1 === null && hangingTransactions.has(`${bar.lane.slice(bar.lane.indexOf("/log/") + 5)} ${bar.pid}`)} title="An open transaction on the partition" />`)}
        ${laneDrawing.arrows.map((message) => html`<${MessageArrow} ...${sharedProperties} message=${message} />`)}
        ${laneDrawing.held.map((message) => html`<${HeldMessage} ...${sharedProperties} message=${message} />`)}
        ${laneDrawing.marks.map((mark) => html`<g class=${`mark ${hueClass(mark.t)}${mark.bad ? " bad" : ""}${indexOfPosition(mark.event.i) === end ? " now" : ""}`} onClick=${() => goToEvent(indexOfPosition(mark.event.i))}>
          <title>${eventLine(mark.event)}</title><circle cx=${xOfColumn(mark.x)} cy=${yOfLane.get(mark.lane)} r="8" /><text x=${xOfColumn(mark.x)} y=${yOfLane.get(mark.lane) + 4}>${eventSign(mark.event)}</text></g>`)}
      </svg>
      <ol class="sr">${laneDrawing.events.slice(-12).map((event) => html`<li>${laneTitle(event.node)}: ${eventLine(event)}</li>`)}</ol></div></div>
    <p class="hint">From left to right the order of events, above it their time; thin lines are the steps of the story. ■ a batch · ✓ COMMIT and ✕ ABORT marker · ● the coordinator's state moved · dashed: held. A click goes to that event; + and − zoom, arrow keys pan.</p>`;
}

function LaneBar({ bar, x, row, end, dy, text, title, hanging }) {
  const barStart = x(bar.x0), barEnd = x(bar.x1 ?? end);
  return html`<g class=${`bar-of ${hanging ? "hangs" : hueClass(bar.t)}`}><title>${title}</title><rect x=${barStart} y=${row.get(bar.lane) + dy} width=${Math.max(2, barEnd - barStart)} height="18" rx="2" />
    <svg x=${barStart} y=${row.get(bar.lane) + dy} width=${Math.max(2, barEnd - barStart)} height="18"><text x="4" y="14">${text}${hanging ? ": hanging" : ""}</text></svg></g>`;
}

function MessageArrow({ message, x, row }) {
  const [x0, x1, y0, y1] = [x(message.x0), x(message.x1), row.get(message.from), row.get(message.to)];
  const arrowGap = (y1 > y0 ? -1 : 1) * 8;
  return html`<g class=${`arrow-of ${hueClass(message.t)}${message.bad ? " bad" : ""}`} onClick=${() => goToEvent(indexOfPosition(message.event.i))}><title>${eventLine(message.event)}</title>
    <path d=${`M${x0} ${y0}L${x1} ${y1 + arrowGap}`} marker-end="url(#head)" />${message.text && html`<text x=${x0 + (x1 - x0) * 0.4 + 5} y=${y0 + (y1 - y0) * 0.4 + (y1 > y0 ? 3 : 8)}>${message.text}</text>`}</g>`;
}

/** Held messages are drawn HELD_GAP pixels before their lane, in HELD_ROWS rows that are HELD_ROW_HEIGHT pixels apart. */
const HELD_GAP = 15, HELD_ROW_HEIGHT = 15, HELD_ROWS = 3;

/** A held message: a line to just before its lane, where it waits; then, if it was released, on to the lane. */
function HeldMessage({ message, x, row, end }) {
  const [x0, y0, y1] = [x(message.x0), row.get(message.from), row.get(message.to)];
  const waitingY = y1 + (y1 > y0 ? -1 : 1) * (HELD_GAP + HELD_ROW_HEIGHT * (message.way % HELD_ROWS));
  const releaseX = x(message.x1 ?? end - 0.4);
  return html`<g class=${`held-of ${hueClass(message.t)}`} onClick=${() => goToEvent(indexOfPosition(message.event.i))}><title>${eventLine(message.event)}</title>
    <path d=${`M${x0} ${y0}L${x0 + 12} ${waitingY}`} /><path class="waits" d=${`M${x0 + 12} ${waitingY}H${releaseX}`} />
    <text x=${x0 + 18} y=${waitingY - 4}>❚❚ ${message.text} held${message.rule ? ` by ${message.rule}` : ""}</text>
    ${message.x1 !== null && html`<path d=${`M${releaseX} ${waitingY}L${releaseX + 8} ${y1 + (y1 > y0 ? -8 : 8)}`} marker-end="url(#head)" />`}</g>`;
}
