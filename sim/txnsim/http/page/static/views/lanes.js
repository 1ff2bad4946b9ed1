// @ts-check
// Lanes: one per role, an arrow from the cause to its effect elsewhere. What is still on its way at
// the cursor is dashed and ends in an open circle.

import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";
import { at, count, events, go, indexOf, shown, state, walk } from "../store.js";
import { ms } from "../words.js";

const WINDOW = 160, LANE = 26, LEFT = 190;

export function Lanes() {
  const canvas = useRef(null);
  void count.value;
  const end = at.value;
  const from = Math.max(0, end - WINDOW);
  // A coordinator's part that is only loaded or let go says nothing: no lane.
  const inView = events.slice(from, end + 1).filter((one) => one.k !== "txn.load" && one.k !== "txn.unload");
  const lanes = [...new Set(inView.map((one) => one.node))].sort();
  const now = state.value.now;
  const owed = Object.entries(now.owed);
  useEffect(() => paint(canvas.current, from, end, lanes, owed));
  const click = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const width = box.width - LEFT - 20;
    go(from + Math.round(((event.clientX - box.left - LEFT) / width) * Math.max(1, end - from)));
  };
  const one = shown.value;
  return html`
    <p class="hint" role="status">${one ? `#${one.i} ${one.k} at ${one.node}, ${ms(one)}; markers owed: ${owed.length}` : "no events"}</p>
    <canvas ref=${canvas} class="lanes" role="img" style=${{ height: `${lanes.length * LANE + 30}px` }} onClick=${click}
      aria-label=${`The last ${end - from + 1} events on ${lanes.length} lanes; the view Events has the same as text`}></canvas>
    <p class="hint">x is the order of events, not time. ◇ a marker is owed · ✓ COMMIT and ✕ ABORT marker written · ✕ in red: refused or lost · dashed: on its way · thick line: the causes of this event. A click goes to that event.</p>`;
}

function paint(canvas, from, end, lanes, owed) {
  if (!canvas) return;
  const scale = devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const style = getComputedStyle(canvas);
  const ink = style.color, faint = style.borderTopColor, hot = style.caretColor, accent = style.outlineColor; // resolved for the theme
  pen.font = "12px system-ui, sans-serif";
  pen.clearRect(0, 0, width, height);
  const y = new Map(lanes.map((name, n) => [name, n * LANE + 20]));
  const x = (n) => LEFT + ((n - from) / Math.max(1, end - from)) * (width - LEFT - 20);
  pen.fillStyle = ink;
  for (const [name, at_] of y) {
    pen.fillText(name.length > 28 ? `…${name.slice(-27)}` : name, 4, at_ + 4);
    line(pen, faint, 1, [LEFT, at_], [width - 10, at_]);
  }
  const cone = new Set(walk(events[end]).map((one) => one.i));
  for (let n = from; n <= end; n += 1) {
    const one = events[n];
    if (!y.has(one.node)) continue;
    const here = [x(n), y.get(one.node)];
    const index = one.p.length ? indexOf(one.p[0]) : undefined;
    if (index !== undefined && index >= from && events[index].node !== one.node && y.has(events[index].node)) {
      const strong = cone.has(one.i);
      line(pen, strong ? accent : ink, strong ? 3 : 0.6, [x(index), y.get(events[index].node)], here);
    }
    const bad = one.k === "msg.drop" || one.k.endsWith(".refused") || one.k === "log.reject";
    pen.fillStyle = bad ? hot : ink;
    if (bad) pen.fillText("✕", here[0] - 4, here[1] + 4);
    else if (one.k === "marker.owed") pen.fillText("◇", here[0] - 4, here[1] + 4);
    else if (one.k === "marker.written") pen.fillText(one.d.committed ? "✓" : "✕", here[0] - 4, here[1] + 4);
    else {
      pen.beginPath();
      pen.arc(here[0], here[1], n === end ? 5 : 2, 0, 7);
      pen.fill();
    }
  }
  pen.setLineDash([5, 4]);
  for (const [key, one] of owed) {
    const index = indexOf(one.i);
    const to = [...y.keys()].find((name) => name.endsWith(`/log/${key.slice(key.lastIndexOf(" ") + 1)}`));
    if (index === undefined || index < from) continue;
    const target = [x(end), y.get(to ?? events[index].node)];
    line(pen, ink, 1.5, [x(index), y.get(events[index].node)], target);
    pen.beginPath();
    pen.arc(target[0], target[1], 5, 0, 7);
    pen.stroke();
  }
  pen.setLineDash([]);
}

function line(pen, colour, thick, [x1, y1], [x2, y2]) {
  pen.strokeStyle = colour;
  pen.lineWidth = thick;
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}
