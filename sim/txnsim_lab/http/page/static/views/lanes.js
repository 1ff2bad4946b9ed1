// @ts-check
// Lanes: one per client, coordinator and partition. Messages are arrows with their names; what is held is
// dashed up to where it is released, or to the cursor.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";
import { nameOf, drawLanes } from "../lanes.js";
import { count, goTo, indexOf, moment } from "../store.js";
import { line, ms } from "../words.js";
import { nameOf as called } from "../tape.js";
import { hueOf } from "./tape.js";

const LANE = 52, TOP = 40, TICKS = 5;
const STEPS = [14, 22, 34, 52, 80];
const zoom = signal(3);
const all = signal(false);
const SIGN = { "log.append": "■", "log.reject": "✕", "log.truncate": "✂", "log.lso": "▸", "txn.complete": "●", "node.down": "✕", "node.up": "○", "fault.arm": "⚑", "fault.release": "▶", "client.deliver": "▼", "marker.refused": "✕", "msg.drop": "✕", "msg.dup": "‖" };
const signOf = ({ k, d }) => (k === "marker.written" ? (d.committed ? "✓" : "✕") : SIGN[k] ?? "·");
const hue = (t) => hueOf(t).split(" ")[0];

export function Lanes() {
  const box = useRef(null);
  void count.value;
  const { index: end, open } = moment.value;
  const it = drawLanes(end, all.value);
  const step = STEPS[zoom.value];
  const width = (it.shown.length + 1.5) * step;
  const height = it.lanes.length * LANE + TOP;
  const x = (n) => (n + 1) * step;
  const row = new Map(it.lanes.map((name, n) => [name, n * LANE + TOP + 22]));
  useEffect(() => {
    box.current.scrollLeft = width;
  }, [end, step, it.lanes.length]);
  const nearer = (by) => (zoom.value = Math.max(0, Math.min(STEPS.length - 1, zoom.value + by)));
  const keys = (event) => {
    if (event.key === "+" || event.key === "=") nearer(1);
    else if (event.key === "-") nearer(-1);
    else return;
    event.preventDefault();
  };
  const hangs = new Set(open.filter((one) => one.verdict === "hanging").map((one) => `${one.partition} ${one.producer_id}`));
  const draw = { x, row, end: it.shown.length, step };
  return html`
    <div class="bar"><span role="status">${it.shown.length ? `${it.shown.length} events, from ${ms(it.shown[0])} to ${ms(it.shown.at(-1))}` : "No event to draw."}</span>
      <span><button id="farther" disabled=${zoom.value === 0} onClick=${() => nearer(-1)}>− farther</button> <button id="nearer" disabled=${zoom.value === STEPS.length - 1} onClick=${() => nearer(1)}>+ nearer</button></span>
      <label><input type="checkbox" id="housekeeping" checked=${all.value} onChange=${(e) => (all.value = e.target.checked)} /> housekeeping, too</label></div>
    <div class="lanes"><div class="lane-names" aria-hidden="true" style=${{ paddingTop: `${TOP}px` }}>${it.lanes.map((name) => html`<div title=${name} style=${{ height: `${LANE}px` }}>${nameOf(name)}</div>`)}</div>
      <div class="lane-box" ref=${box} tabindex="0" role="figure" aria-label="What happened, in lanes" onKeyDown=${keys}>
      <svg width=${width} height=${height} aria-hidden="true">
        <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" /></marker></defs>
        ${it.shown.map((one, n) => n % TICKS === 0 && html`<text class="tick" x=${x(n)} y="12">${ms(one)}</text>`)}
        ${it.steps.map(({ one, x: n }) => html`<g class="story-step"><title>${one.d.text}</title><line x1=${x(n)} x2=${x(n)} y1="18" y2=${height} /></g>`)}
        ${it.lanes.map((name) => html`<line class="lane" x1="0" x2=${width} y1=${row.get(name)} y2=${row.get(name)} />`)}
        ${it.states.map((one) => html`<${Bar} ...${draw} one=${one} dy=${7} text=${one.text} title=${`${one.id}: ${one.text}`} />`)}
        ${it.open.map((one) => html`<${Bar} ...${draw} one=${one} dy=${7} text=${`${one.t ? called(one.t) : `producer ${one.pid}`} open`} hanging=${one.x1 === null && hangs.has(`${one.lane.slice(one.lane.indexOf("/log/") + 5)} ${one.pid}`)} title="An open transaction on the partition" />`)}
        ${it.arrows.map((one) => html`<${Arrow} ...${draw} one=${one} />`)}
        ${it.held.map((one) => html`<${Held} ...${draw} one=${one} />`)}
        ${it.marks.map((one) => html`<g class=${`mark ${hue(one.t)}${one.bad ? " bad" : ""}${indexOf(one.one.i) === end ? " now" : ""}`} onClick=${() => goTo(indexOf(one.one.i))}>
          <title>${line(one.one)}</title><circle cx=${x(one.x)} cy=${row.get(one.lane)} r="8" /><text x=${x(one.x)} y=${row.get(one.lane) + 4}>${signOf(one.one)}</text></g>`)}
      </svg>
      <ol class="sr">${it.shown.slice(-12).map((one) => html`<li>${nameOf(one.node)}: ${line(one)}</li>`)}</ol></div></div>
    <p class="hint">From left to right the order of events, above it their time; thin lines are the steps of the story. ■ a batch · ✓ COMMIT and ✕ ABORT marker · ● the coordinator's state moved · dashed: held. A click goes to that event; + and − zoom, arrow keys pan.</p>`;
}

function Bar({ one, x, row, end, dy, text, title, hanging }) {
  const from = x(one.x0), to = x(one.x1 ?? end);
  return html`<g class=${`bar-of ${hanging ? "hangs" : hue(one.t)}`}><title>${title}</title><rect x=${from} y=${row.get(one.lane) + dy} width=${Math.max(2, to - from)} height="13" rx="2" />
    <svg x=${from} y=${row.get(one.lane) + dy} width=${Math.max(2, to - from)} height="13"><text x="3" y="10">${text}${hanging ? ": hanging" : ""}</text></svg></g>`;
}

function Arrow({ one, x, row }) {
  const [x0, x1, y0, y1] = [x(one.x0), x(one.x1), row.get(one.from), row.get(one.to)];
  const short = (y1 > y0 ? -1 : 1) * 8;
  return html`<g class=${`arrow-of ${hue(one.t)}${one.bad ? " bad" : ""}`} onClick=${() => goTo(indexOf(one.one.i))}><title>${line(one.one)}</title>
    <path d=${`M${x0} ${y0}L${x1} ${y1 + short}`} marker-end="url(#head)" />${one.text && html`<text x=${x0 + (x1 - x0) * 0.4 + 5} y=${y0 + (y1 - y0) * 0.4 + (y1 > y0 ? 3 : 8)}>${one.text}</text>`}</g>`;
}

/** So far before a lane, and apart, messages are held that go there; so many side by side. */
const BEFORE = 15, APART = 15, BESIDE = 3;

/** Up to the lane, then it waits; to its end where it was released. */
function Held({ one, x, row, end }) {
  const [x0, y0, y1] = [x(one.x0), row.get(one.from), row.get(one.to)];
  const mid = y1 + (y1 > y0 ? -1 : 1) * (BEFORE + APART * (one.way % BESIDE));
  const to = x(one.x1 ?? end - 0.4);
  return html`<g class=${`held-of ${hue(one.t)}`} onClick=${() => goTo(indexOf(one.one.i))}><title>${line(one.one)}</title>
    <path d=${`M${x0} ${y0}L${x0 + 12} ${mid}`} /><path class="waits" d=${`M${x0 + 12} ${mid}H${to}`} />
    <text x=${x0 + 18} y=${mid - 4}>❚❚ ${one.text} held${one.rule ? ` by ${one.rule}` : ""}</text>
    ${one.x1 !== null && html`<path d=${`M${to} ${mid}L${to + 8} ${y1 + (y1 > y0 ? -8 : 8)}`} marker-end="url(#head)" />`}</g>`;
}
