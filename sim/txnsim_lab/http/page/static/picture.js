// @ts-check
// The picture of the stage as plain values: what the application, the coordinator and the partitions believe of the
// transactions of one transactional id, and the messages between them. views/picture.js draws it.

import { application } from "./application.js";
import { OUTSIDERS, coordinated, messages, readersAt, sharersAt, sharing, stepAt } from "./stage.js";
import { events, holds, nearest } from "./store.js";
import { begunUntil, nameOf, tape } from "./tape.js";

/** How many batches of a log, logs, and share groups of a log are shown at most. */
const CELLS_MAX = 5;
export const LOGS_MAX = 2;
const SHARERS_MAX = 2;
/** Without steps of a story, the last so many events count as new. */
const RECENT_EVENTS = 40;
const SECOND_US = 1_000_000;
const HOLDS_MAX = 200;
const MARKERS = { COMMIT: "✓ COMMIT", ABORT: "✕ ABORT" };
/** Facts of questions that the coordinator's states would give away. Its sentence is hidden for every question. */
const COORDINATOR_FACTS = new Set(["state", "epoch", "markers"]);
const NONE = { where: "", states: [], pending: null };
/** Facts of questions that the batches of a log would give away. */
const LOG_FACTS = new Set(["markers", "reads", "delivered", "marker-refused"]);
const OUTCOME_SIGNS = { committed: "✓", aborted: "✕" };

/** What is drawn of a moment for a transactional id and partitions. While a lesson asks about `askedFact`, what would
 *  answer the question is left out. */
export function pictureOf(moment, id, tps, askedFact = null) {
  const { now, index } = moment;
  if (LOG_FACTS.has(askedFact)) tps = [];
  const newest = begunUntil(id, index);
  const belief = newest ? application(newest, index) : null;
  const since = stepAt(index)?.from ?? index - RECENT_EVENTS;
  const logs = tps.map((tp) => logOf(moment, tp, askedFact));
  const sentMessages = messages(now, index).filter((message) => message.isDue || message.how === "lost" || message.how === "refused" || message.how === "cancelled");
  const flights = [];
  const record = lastCell(logs, (cell) => !cell.isMarker && cell.id === id);
  const produce = sentMessages.find((message) => message.label === "Produce" && !OUTSIDERS.has(message.from));
  if (produce) flights.push({ kind: "record", label: `${produce.said && produce.how !== "refused" ? produce.said : "a record"}, ${howOf(produce)}${produce.how === "held" ? durationText(produce.since, events[index]) : ""}`, how: produce.how, to: null, isNew: true, rule: produce.how === "held" ? produce.rule : null });
  else if (record) flights.push({ kind: "record", label: `${record.cell.text || "a record"}${heldFor(events[record.cell.n])}`, how: "delivered", to: record.to, isNew: record.cell.n >= since });
  logs.forEach(({ tp }, number) => {
    const owedMarker = sentMessages.find((message) => message.to === tp && message.label.endsWith(" marker") && !(askedFact && message.how === "owed"));
    const writtenMarker = lastCell([logs[number]], (cell) => cell.isMarker && cell.id === id);
    if (owedMarker) flights.push({ kind: "marker", label: `${owedMarker.label}, ${howOf(owedMarker)}`, how: owedMarker.how, to: null, log: number, isNew: true, rule: owedMarker.how === "held" ? owedMarker.rule : null });
    else if (writtenMarker) flights.push({ kind: "marker", label: `${writtenMarker.cell.how} marker`, how: "delivered", to: { ...writtenMarker.to, log: number }, log: number, isNew: writtenMarker.cell.n >= since });
  });
  const entry = now.transactions[id];
  return {
    app: askedFact === "answer" ? { text: "?", how: "none" } : { text: belief ? `${nameOf(newest)} ${belief.text}` : "no transaction yet", how: belief?.how ?? "none" },
    coordinator: COORDINATOR_FACTS.has(askedFact) ? { ...NONE, text: "?" } : { ...(entry ? coordinatorOf(coordinated(now, id, index)) : { ...NONE, text: "it knows no such id" }), ...(askedFact && { text: "" }) },
    logs, flights,
  };
}

const howOf = ({ how }) => ({ owed: "on its way", cancelled: "never sent" })[how] ?? how;

function lastCell(logs, isSought) {
  for (let log = 0; log < logs.length; log += 1) {
    const cell = logs[log].cells.findLastIndex(isSought);
    if (cell >= 0) return { cell: logs[log].cells[cell], to: { log, cell } };
  }
  return null;
}

const durationText = (from, to) => (to.t - from.t >= SECOND_US / 10 ? ` ${((to.t - from.t) / SECOND_US).toFixed(1)} s` : "");

/** For how long the request that wrote a batch was held, as text; "" if it was not. */
function heldFor(event) {
  const received = nearest(event, (cause) => cause.k === "msg.recv" && cause.d.api === "Produce");
  const holdIndices = holds();
  for (let n = holdIndices.length - 1; received && n >= Math.max(0, holdIndices.length - HOLDS_MAX); n -= 1) {
    const hold = events[holdIndices[n]];
    if (hold.i < received.i) return "";
    if (hold.i < event.i && nearest(hold, (cause) => cause.i === received.i)) return `, held${durationText(hold, event)}`;
  }
  return "";
}

function coordinatorOf({ entry, passed, t, outcome, owed }) {
  const name = t && nameOf(t);
  const owedText = owed.length ? "its marker is owed" : "no marker is owed";
  const text = !t ? "no transaction yet" : entry.state === "Ongoing" ? `${name} is open` : outcome ? `${name} is over, ${owedText}` : `${name} is decided, ${owedText}`;
  const where = entry.node.startsWith("broker/") ? `broker ${entry.node.split("/")[1]}` : "no broker has it loaded";
  return { where, states: passed, pending: entry.pending, text };
}

/** The transaction of a batch and what became of it, as text. */
const ownerTextOf = ({ how, t }, askedFact) => (askedFact ? nameOf(t) : how === "open" ? `open: ${nameOf(t)}` : how in OUTCOME_SIGNS ? `${nameOf(t)} ${how} ${OUTCOME_SIGNS[how]}` : nameOf(t));

function logOf({ now, index, open }, tp, askedFact) {
  const log = now.logs[tp];
  const { cells, far, earlier } = tape(tp, index, log.lso);
  const hangingVerdicts = open.filter((verdict) => verdict.partition === tp && verdict.verdict === "hanging");
  const shownCells = cells.slice(-CELLS_MAX);
  const wall = [...(far ? [far.cell] : []), ...cells].find(({ first, last: end }) => first <= log.lso && log.lso <= end);
  if (wall && !shownCells.includes(wall)) shownCells.splice(0, 1, wall);
  const isOpen = log.lso < log.end;
  const sharers = sharersAt(now, tp);
  return {
    tp, where: `broker ${log.leader}`, end: log.end, earlier: earlier + cells.length - shownCells.length,
    cells: shownCells.map((cell) => {
      const hanging = !askedFact && cell.how === "open" && hangingVerdicts.some((verdict) => verdict.producer_id === cell.pid && cell.last >= verdict.first);
      return {
        at: cell.first === cell.last ? `${cell.first}` : `${cell.first}–${cell.last}`, how: hanging ? "hanging" : askedFact && !cell.isMarker ? "asked" : cell.how, hue: cell.t?.hue, id: cell.t?.id, isMarker: cell.isMarker, i: cell.i, n: cell.n,
        text: cell.values?.filter(Boolean).map((recordValue) => `“${recordValue}”`).join(", ") ?? "",
        title: MARKERS[cell.how] ?? "", sub: cell.t ? ownerTextOf(cell, askedFact) : cell.pid >= 0 && cell.how !== "plain" ? `producer ${cell.pid}` : "",
        isWall: !askedFact && isOpen && cell === wall, isUnread: !askedFact && isOpen && cell.last >= log.lso,
      };
    }),
    isOpen: !askedFact && isOpen,
    bracket: !isOpen || askedFact ? "" : hangingVerdicts.length ? "open from here · no marker will come" : "open from here",
    readers: askedFact ? [] : readersAt(tp, index, log.lso).map(({ name }) => name).filter((name) => !OUTSIDERS.has(name)),
    ...(sharers.length && !askedFact && { sharers: sharers.slice(0, SHARERS_MAX).map(sharing) }),
  };
}
