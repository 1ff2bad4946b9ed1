// @ts-check
// Lanes: one per client, coordinator and partition. Messages are arrows with their names; a held message is dashed up
// to its release, or to the cursor.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";
import { laneTitle, drawLanes } from "../lanes.js";
import { count, goTo, indexOf, moment } from "../store.js";
import { line, ms } from "../words.js";
import { nameOf } from "../tape.js";
import { hueOf } from "./tape.js";

const LANE = 52, TOP = 40, TICKS = 5;
const STEPS = [14, 22, 34, 52, 80];
const zoom = signal(3);
const withHousekeeping = signal(false);
const SIGN = { "log.append": "■", "log.reject": "✕", "log.truncate": "✂", "log.lso": "▸", "txn.complete": "●", "node.down": "✕", "node.up": "○", "fault.arm": "⚑", "fault.release": "▶", "client.deliver": "▼", "marker.refused": "✕", "msg.drop": "✕", "msg.dup": "‖" };
const signOf = ({ k, d }) => (k === "marker.written" ? (d.committed ? "✓" : "✕") : SIGN[k] ?? "·");
const hueClass = (t) => hueOf(t).split(" ")[0];

export function Lanes() {
  const boxRef = useRef(null);
  void count.value;
  const { index: end, open } = moment.value;
  const drawing = drawLanes(end, withHousekeeping.value);
  const step = STEPS[zoom.value];
  const width = (drawing.events.length + 1.5) * step;
  const height = drawing.lanes.length * LANE + TOP;
  const x = (n) => (n + 1) * step;
  const row = new Map(drawing.lanes.map((name, n) => [name, n * LANE + TOP + 22]));
  useEffect(() => {
    boxRef.current.scrollLeft = width;
  }, [end, step, drawing.lanes.length]);
  const zoomBy = (steps) => (zoom.value = Math.max(0, Math.min(STEPS.length - 1, zoom.value + steps)));
  const onKeyDown = (event) => {
    if (event.key === "+" || event.key === "=") zoomBy(1);
    else if (event.key === "-") zoomBy(-1);
    else return;
    event.preventDefault();
  };
  const hangingKeys = new Set(open.filter((verdict) => verdict.verdict === "hanging").map((verdict) => `${verdict.partition} ${verdict.producer_id}`));
  const draw = { x, row, end: drawing.events.length, step };
  return html`
    <div class="bar"><span role="status">${drawing.events.length ? `${drawing.events.length} events, from ${ms(drawing.events[0])} to ${ms(drawing.events.at(-1))}` : "No event to draw."}</span>
      <span><button id="farther" disabled=${zoom.value === 0} onClick=${() => zoomBy(-1)}>− farther</button> <button id="nearer" disabled=${zoom.value === STEPS.length - 1} onClick=${() => zoomBy(1)}>+ nearer</button></span>
      <label><input type="checkbox" id="housekeeping" checked=${withHousekeeping.value} onChange=${(e) => (withHousekeeping.value = e.target.checked)} /> housekeeping, too</label></div>
    <div class="lanes"><div class="lane-names" aria-hidden="true" style=${{ paddingTop: `${TOP}px` }}>${drawing.lanes.map((name) => html`<div title=${name} style=${{ height: `${LANE}px` }}>${laneTitle(name)}</div>`)}</div>
      <div class="lane-box" ref=${boxRef} tabindex="0" role="figure" aria-label="What happened, in lanes" onKeyDown=${onKeyDown}>
      <svg width=${width} height=${height} aria-hidden="true">
        <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" /></marker></defs>
        ${drawing.events.map((event, n) => n % TICKS === 0 && html`<text class="tick" x=${x(n)} y="12">${ms(event)}</text>`)}
        ${drawing.steps.map(({ event, x: n }) => html`<g class="story-step"><title>${event.d.text}</title><line x1=${x(n)} x2=${x(n)} y1="18" y2=${height} /></g>`)}
        ${drawing.lanes.map((name) => html`<line class="lane" x1="0" x2=${width} y1=${row.get(name)} y2=${row.get(name)} />`)}
        ${drawing.states.map((bar) => html`<${Bar} ...${draw} bar=${bar} dy=${7} text=${bar.text} title=${`${bar.id}: ${bar.text}`} />`)}
        ${drawing.open.map((bar) => html`<${Bar} ...${draw} bar=${bar} dy=${7} text=${`${bar.t ? nameOf(bar.t) : `producer ${bar.pid}`} open`} hanging=${bar.x1 === null && hangingKeys.has(`${bar.lane.slice(bar.lane.indexOf("/log/") + 5)} ${bar.pid}`)} title="An open transaction on the partition" />`)}
        ${drawing.arrows.map((message) => html`<${Arrow} ...${draw} message=${message} />`)}
        ${drawing.held.map((message) => html`<${HeldMessage} ...${draw} message=${message} />`)}
        ${drawing.marks.map((mark) => html`<g class=${`mark ${hueClass(mark.t)}${mark.bad ? " bad" : ""}${indexOf(mark.event.i) === end ? " now" : ""}`} onClick=${() => goTo(indexOf(mark.event.i))}>
          <title>${line(mark.event)}</title><circle cx=${x(mark.x)} cy=${row.get(mark.lane)} r="8" /><text x=${x(mark.x)} y=${row.get(mark.lane) + 4}>${signOf(mark.event)}</text></g>`)}
      </svg>
      <ol class="sr">${drawing.events.slice(-12).map((event) => html`<li>${laneTitle(event.node)}: ${line(event)}</li>`)}</ol></div></div>
    <p class="hint">From left to right the order of events, above it their time; thin lines are the steps of the story. ■ a batch · ✓ COMMIT and ✕ ABORT marker · ● the coordinator's state moved · dashed: held. A click goes to that event; + and − zoom, arrow keys pan.</p>`;
}

function Bar({ bar, x, row, end, dy, text, title, hanging }) {
  const from = x(bar.x0), to = x(bar.x1 ?? end);
  return html`<g class=${`bar-of ${hanging ? "hangs" : hueClass(bar.t)}`}><title>${title}</title><rect x=${from} y=${row.get(bar.lane) + dy} width=${Math.max(2, to - from)} height="13" rx="2" />
    <svg x=${from} y=${row.get(bar.lane) + dy} width=${Math.max(2, to - from)} height="13"><text x="3" y="10">${text}${hanging ? ": hanging" : ""}</text></svg></g>`;
}

function Arrow({ message, x, row }) {
  const [x0, x1, y0, y1] = [x(message.x0), x(message.x1), row.get(message.from), row.get(message.to)];
  const short = (y1 > y0 ? -1 : 1) * 8;
  return html`<g class=${`arrow-of ${hueClass(message.t)}${message.bad ? " bad" : ""}`} onClick=${() => goTo(indexOf(message.event.i))}><title>${line(message.event)}</title>
    <path d=${`M${x0} ${y0}L${x1} ${y1 + short}`} marker-end="url(#head)" />${message.text && html`<text x=${x0 + (x1 - x0) * 0.4 + 5} y=${y0 + (y1 - y0) * 0.4 + (y1 > y0 ? 3 : 8)}>${message.text}</text>`}</g>`;
}

/** Held messages are drawn BEFORE pixels before their lane, APART pixels from each other, BESIDE of them in a row. */
const BEFORE = 15, APART = 15, BESIDE = 3;

/** A held message: a line to just before its lane, where it waits; then, if it was released, on to the lane. */
function HeldMessage({ message, x, row, end }) {
  const [x0, y0, y1] = [x(message.x0), row.get(message.from), row.get(message.to)];
  const mid = y1 + (y1 > y0 ? -1 : 1) * (BEFORE + APART * (message.way % BESIDE));
  const to = x(message.x1 ?? end - 0.4);
  return html`<g class=${`held-of ${hueClass(message.t)}`} onClick=${() => goTo(indexOf(message.event.i))}><title>${line(message.event)}</title>
    <path d=${`M${x0} ${y0}L${x0 + 12} ${mid}`} /><path class="waits" d=${`M${x0 + 12} ${mid}H${to}`} />
    <text x=${x0 + 18} y=${mid - 4}>❚❚ ${message.text} held${message.rule ? ` by ${message.rule}` : ""}</text>
    ${message.x1 !== null && html`<path d=${`M${to} ${mid}L${to + 8} ${y1 + (y1 > y0 ? -8 : 8)}`} marker-end="url(#head)" />`}</g>`;
}
