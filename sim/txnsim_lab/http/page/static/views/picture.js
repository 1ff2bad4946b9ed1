// @ts-check
// The picture of the stage: three believers above each other, marker and record as curves into the log, and the
// reader at the wall that it must not pass.

import { signal } from "@preact/signals";
import { html } from "../html.js";
import { comparison, goTo, indexOf, lesson } from "../store.js";
import { hueOf } from "./tape.js";

const narrow = matchMedia("(max-width: 760px)");
const isSmall = signal(narrow.matches);
narrow.addEventListener("change", () => (isSmall.value = narrow.matches));
/** On a telephone, and where two pictures stand beside a lesson, the bands are narrower, and the text is not smaller. */
const width_ = () => (isSmall.value ? 380 : isBeside() ? 470 : 660);
const isBeside = () => Boolean(comparison.value && lesson.value);
const isNarrow = () => isSmall.value || isBeside();
/** So many states fit there. */
const pillsMax = () => (isNarrow() ? 2 : 4);
const LEFT = 34; // room for the reader's figure left of a wall at the first batch
const TOP = { app: 14, coordinator: 92, log: 236 };
const BOX = 34, PILL = 30, CELL = 70, LOG = 106, READERS = 56, SHARER = 22;
const GAP = 8, SPACE = 12;
const FONT = '14px system-ui, "DejaVu Sans", sans-serif';
const TEXT_MAX = 34, CELL_TEXT_MAX = 18;

let pen = null;
/** How wide a text is. */
function widthOf(text, isBold = false) {
  pen ??= document.createElement("canvas").getContext("2d");
  pen.font = isBold ? `700 ${FONT}` : FONT;
  return pen.measureText(text).width;
}
const short = (text, most = TEXT_MAX) => (text.length > most ? `${[...text].slice(0, most - 1).join("")}…` : text);

/** `it` is what picture.js makes of a moment. */
export function Picture({ it, label = "The picture", isStill = false }) {
  const app = short(it.app.text, isNarrow() ? 40 : 60);
  const appWidth = widthOf(app) + 2 * SPACE;
  const pills = pillsOf(it.coordinator);
  const from = pills.findLast(({ isNow }) => isNow) ?? { x: 0, width: 0 };
  const out = from.x + from.width / 2;
  let height = TOP.log;
  const logs = it.logs.map((log) => {
    const found = laidOut(log, height);
    height += LOG + (log.isOpen || it.logs.length === 1 ? READERS : 0); // one log stands still when a reader comes
    height += SHARER * found.sharers.length;
    return found;
  });
  const leaves = ({ kind }) => (kind === "record" ? [appWidth, TOP.app + 27] : [out, TOP.coordinator + 10 + PILL]);
  const said = short(it.coordinator.text, 60);
  const saidWidth = widthOf(said);
  return html`<svg class=${`drawn${logs.length > 1 ? " tall" : ""}`} role="group" aria-label=${label} viewBox=${`-2 0 ${width_() + 4} ${height + 4}`}>
    <defs>${["new", "old"].map((name) => html`<marker id=${`tip-${name}`} class=${`tip ${name}`} markerWidth="10" markerHeight="10" refX="6" refY="4" orient="auto" markerUnits="userSpaceOnUse"><path d="M0,0L8,4L0,8z" /></marker>`)}
      <pattern id="stripes" width="8" height="8" patternTransform="rotate(45)" patternUnits="userSpaceOnUse"><rect class="ground" width="8" height="8" /><rect class="stripe" width="3" height="8" /></pattern></defs>
    <text class="cap" x="0" y=${TOP.app}>THE APPLICATION BELIEVES</text>
    <rect class=${`box ${it.app.how}`} x="0" y=${TOP.app + 10} width=${appWidth} height=${BOX} rx="6" /><text class="app" x=${SPACE} y=${TOP.app + 32}>${app}${app !== it.app.text && html`<title>${it.app.text}</title>`}</text>
    <text class="cap" x="0" y=${TOP.coordinator}>THE COORDINATOR BELIEVES${it.coordinator.where && ` · ${it.coordinator.where}`}</text>
    ${it.flights.map((one) => html`<${Flight} key=${keyOf(one)} one=${one} logs=${logs} from=${leaves(one)} />`)}
    ${pills.map(({ x, width, name, isNow, isPending }) => html`<rect class=${`pill${isNow ? " now" : ""}${isPending ? " pending" : ""}`} x=${x} y=${TOP.coordinator + 10} width=${width} height=${PILL} rx="15" /><text class=${`state-name${isNow ? " now" : ""}`} x=${x + SPACE} y=${TOP.coordinator + 30}>${name}</text>`)}
    <text class="coordinator" x=${out + 14 + saidWidth < width_() - 90 ? out + 14 : Math.max(0, out - 28 - saidWidth)} y=${TOP.coordinator + 62}>${said}</text>
    ${logs.map((log) => html`<${Log} key=${log.tp} log=${log} arrows=${it.flights.map((one) => aimOf(one, logs)).filter((aim) => aim?.y === log.top + 10)} isStill=${isStill} />`)}
    ${it.flights.map((one) => html`<${Label} key=${keyOf(one)} one=${one} logs=${logs} from=${leaves(one)} />`)}</svg>`;
}

/** What is new comes into sight anew (app.css), unless nothing is to move. */
const keyOf = ({ kind, log = 0, how, isNew }) => `${kind} ${log} ${how} ${isNew}`;

function pillsOf({ states, pending }) {
  let x = 0;
  const shown = states.slice(-pillsMax());
  return [...shown, ...(pending ? [pending] : [])].map((name, n) => {
    const isNow = n === shown.length - 1;
    const width = widthOf(name, isNow) + 2 * SPACE + 2;
    const found = { name, x, width, isNow, isPending: n === shown.length };
    x += width + 2 * GAP;
    return found;
  });
}

/** Where the batches of a log are. */
function laidOut(log, top) {
  const sized = log.cells.map((cell) => {
    const lines = [cell.title || short(cell.text, CELL_TEXT_MAX) || "record", short(cell.sub, 22)];
    return { cell, lines, width: Math.max(84, ...lines.map((one) => widthOf(one, true) + 2 * SPACE)) };
  });
  let room = width_() - LEFT - 70;
  let from = sized.length;
  while (from > 0 && room - sized[from - 1].width - GAP >= 0) room -= sized[(from -= 1)].width + GAP;
  const wall = sized.findIndex(({ cell }) => cell.isWall);
  if (wall >= 0 && wall < from) sized.splice(0, from, sized[wall]); // the wall is always there
  else sized.splice(0, from);
  const isCut = log.earlier > 0 || from > 0;
  let x = LEFT;
  const cells = sized.map((one) => {
    const at = { ...one, x };
    x += one.width + GAP;
    return at;
  });
  return { sharers: [], ...log, top, cells, isCut, endX: x, dropped: from };
}

const cellAt = (log, number) => log?.cells.find(({ cell }) => cell === log.all[number]);

/** A batch leads to the event that has written it, but in a picture of no run. */
const leads = (cell, isStill) => (isStill ? {} : { role: "button", tabindex: "0", onClick: () => goTo(indexOf(cell.i)), onKeyDown: (e) => e.key === "Enter" && goTo(indexOf(cell.i)) });

function Log({ log, arrows, isStill }) {
  const y = log.top + 16;
  const wall = log.cells.find(({ cell }) => cell.isWall);
  const stand = wall ? wall.x - 20 : log.endX + 20;
  const names = log.readers.length ? short(log.readers.join(", "), 24) : "";
  const called = `THE PARTITION BELIEVES · ${short(log.tp)}, ${log.where}`;
  const beside = Math.max(0, ...arrows.filter(({ x: to, isShort }) => to && !isShort).map(({ x: to }) => to + 36)); // no curve crosses it
  return html`<g class="log"><text class="cap" x=${beside && beside + widthOf(called, true) < width_() ? beside : LEFT} y=${log.top + 2}>${called}</text>
    ${log.isCut && html`<text class="dim" x="0" y=${y + 40}>…</text>`}
    ${log.cells.map(({ cell, lines, x, width }) => html`<g key=${`${cell.at} ${cell.how}`} class=${`batch ${cell.how} ${hueOf(cell.hue === undefined ? null : cell)}`} ...${leads(cell, isStill)}>
      <rect x=${x} y=${y} width=${width} height=${CELL} rx="4" /><text class="offset" x=${x + SPACE} y=${y + 20}>${cell.at}</text><text class="what" x=${x + SPACE} y=${y + 42}>${lines[0]}</text><text class="whose" x=${x + SPACE} y=${y + 60}>${lines[1]}</text></g>`)}
    <text class="dim" x=${log.endX + 4} y=${y + 20}>${log.end}${log.cells.length === 0 && ": nothing is written yet"}</text>
    ${wall && html`<path class=${`open-from ${log.bracket.includes("no marker") ? "hangs" : ""}`} d=${`M${wall.x},${y + CELL + 6} v10 H${Math.min(width_(), Math.max(log.endX + 40, wall.x + 270))}`} /><text class=${`bracket-of ${log.bracket.includes("no marker") ? "hangs" : ""}`} x=${Math.min(wall.x + 8, width_() - widthOf(log.bracket, true))} y=${y + CELL + 34}>${log.bracket}</text>`}
    ${(names || log.isOpen) && html`<g class="figure" transform=${`translate(${stand},${wall ? y + CELL + 18 : y + 10})`}><circle cx="0" cy="0" r="7" /><path d="M0,7 v20 M-11,14 h22 M0,27 l-8,15 M0,27 l8,15" /></g>
      <text class="reader" x=${wall ? wall.x + 8 : stand + 16} y=${wall ? y + CELL + 56 : y + 36}>${names || "a reader"} ${wall ? "waits" : "reads on"}</text>`}
    ${log.sharers.map((said, n) => html`<text class="sharer" x=${LEFT} y=${y + CELL + (log.isOpen ? 80 : 24) + SHARER * n}>${short(said, isNarrow() ? 50 : 84)}<title>${said}</title></text>`)}</g>`;
}

/** Where a curve ends: at its batch, or before the log, where it has not arrived. */
function aimOf(one, logs) {
  const log = logs[one.to?.log ?? one.log ?? 0];
  if (!log) return null;
  const found = one.to && log.cells[one.to.cell - log.dropped];
  return found ? { x: found.x + found.width / 2, y: log.top + 10 } : one.to ? null : { x: log.endX + 20, y: log.top - 20, isShort: true };
}

/** Right of the coordinator, where a record passes, or waits. */
const passes = () => ({ x: width_() - 45, y: TOP.coordinator + 26 });

/** A curve: where it begins, then three points for each part. It comes down on a batch, and crosses no caption. */
function curveOf(one, aim, [x, y]) {
  if (one.kind === "marker") return [[x, y], [[x, y + 60], [aim.x - 10, aim.y - 60], [aim.x - 10, aim.y]]];
  const by = passes();
  const out = [[by.x - 80, y], [by.x, y + 20], [by.x, by.y]];
  return aim.isShort ? [[x, y], out] : [[x, y], out, [[by.x, by.y + 97], [aim.x + 10, aim.y - 60], [aim.x + 10, aim.y]]];
}

/** The middle of a curve of one part. */
const middleOf = ([a, [b, c, d]]) => [0, 1].map((n) => (a[n] + 3 * b[n] + 3 * c[n] + d[n]) / 8);

function Flight({ one, logs, from }) {
  const aim = aimOf(one, logs);
  if (!aim) return null;
  const name = one.isNew ? "new" : "old";
  const [start, ...parts] = curveOf(one, aim, from);
  return html`<path class=${`flight ${one.kind} ${name} ${one.how}`} d=${`M${start} ${parts.map((part) => `C${part.join(" ")}`).join(" ")}`} pathLength=${one.isNew && !aim.isShort && one.how === "delivered" ? 1 : undefined} marker-end=${aim.isShort ? undefined : `url(#tip-${name})`} />`;
}

/** What goes there, on its curve. */
function Label({ one, logs, from }) {
  const aim = aimOf(one, logs);
  if (!aim || (one.log > 0 && one.how === "delivered")) return null; // it is as the one above
  const text = short(one.label, one.kind === "record" ? 22 : 30);
  const width = widthOf(text) + 20;
  const isRecord = one.kind === "record";
  const [x, y] = isRecord ? [passes().x, passes().y] : middleOf(curveOf(one, aim, from));
  const left = Math.max(0, Math.min(isRecord ? x - width / 2 : x - width + 10, width_() - width));
  const top = isRecord ? y - 13 : y - 32;
  return html`<g class=${`goes ${one.isNew ? "new" : "old"} ${one.how}`}>${(isRecord || one.how !== "delivered") && html`<rect x=${left} y=${top} width=${width} height="26" rx="6" />`}<text x=${left + 10} y=${top + 18}>${text}</text></g>`;
}
