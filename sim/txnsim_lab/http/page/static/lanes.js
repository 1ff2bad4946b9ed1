// @ts-check
// What the lanes draw of the events up to an index: a lane for each node, messages between them (also held ones),
// states of coordinators, open transactions of partitions. An x coordinate is the number of a drawn event.

import { HOUSEKEEPING, OUTSIDERS } from "./stage.js";
import { transactionAt, transactionOf } from "./tape.js";
import { events, indexOf, nearest } from "./store.js";
import { idOf } from "./reducer.js";
import { hasFailed } from "./words.js";

/** At most so many events are examined, and at most so many of them drawn. */
const EXAMINED_MAX = 3000;
const DRAWN_MAX = 200;
/** Kinds that are not drawn: another event tells the same, or they are of no interest. */
const QUIET_KINDS = new Set([
  "conn.open", "conn.close", "txn.load", "txn.unload", "txn.prepare", "txn.decide", "txn.append", "log.hw", "verify.ask", "fault.hit", "node.role",
  "node.state", "marker.acked", "marker.owed", "pid.open", "pid.close", "pid.bump", "log.aborted", "snapshot", "check.pass", "group.offset_pending",
]);
const TO_COORDINATOR = new Set(["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"]);
const clientOf = ({ d }) => (d?.peer?.startsWith("client/") ? d.peer : null);
const isOutsider = (name) => name?.startsWith("client/") && OUTSIDERS.has(name.slice("client/".length));

/** Whether an event is drawn when housekeeping is left out. */
export function isTelling(event) {
  if (QUIET_KINDS.has(event.k) || (event.k === "node.up" && event.t === 0) || isOutsider(event.node) || isOutsider(clientOf(event)) || event.node === "onlooker") return false;
  if (!event.k.startsWith("msg.")) return true;
  return !HOUSEKEEPING.has(event.d.api) && event.d.api !== "AllocateProducerIds" && !(event.k === "msg.send" && !hasFailed(event));
}

/** The lane of an event: a request is drawn where it is handled. Null for events that have no lane. */
function laneOf(event, nodes) {
  if (event.k === "note" || event.k === "input" || event.k.startsWith("check.")) return null;
  if (event.k.startsWith("fault.")) return "fault";
  if (event.k.startsWith("msg.") && /^broker\/\d+$/.test(event.node)) {
    const part = TO_COORDINATOR.has(event.d.api) ? "txn" : event.d.api === "Produce" || event.d.api === "WriteTxnMarkers" ? "log" : null;
    const candidates = part && nodes.filter((name) => name.startsWith(`${event.node}/${part}/`));
    if (candidates?.length === 1) return candidates[0];
  }
  return event.node;
}

const RANK = [/^client\//, /\/txn\//, /\/log\//, /^broker\//, /./];
const rankOf = (name) => RANK.findIndex((pattern) => pattern.test(name));

/** The title of a node's lane. */
export function laneTitle(node) {
  const [, broker, kind, part] = /^broker\/(\d+)(?:\/(txn|log)\/(.*))?$/.exec(node) ?? [];
  if (!broker) return node.replace(/^client\//, "");
  if (kind === "txn") return `coordinator · broker ${broker}`;
  return kind === "log" ? `${part} · broker ${broker}` : `broker ${broker}`;
}

/** Everything that the lanes draw up to an index, as plain values. */
export function drawLanes(index, withHousekeeping) {
  const drawnEvents = [];
  const steps = [];
  for (let n = index; n >= Math.max(0, index - EXAMINED_MAX) && drawnEvents.length < DRAWN_MAX; n -= 1) {
    const event = events[n];
    if (event.k === "note" && event.node === "scenario") steps.push({ event, before: drawnEvents.length });
    else if (withHousekeeping || isTelling(event)) drawnEvents.push(event);
  }
  drawnEvents.reverse();
  const nodes = [...new Set(drawnEvents.map((event) => event.node))];
  const columnOf = new Map(drawnEvents.map((event, n) => [event.i, n]));
  const drawing = { events: drawnEvents, marks: [], arrows: [], held: [], states: [], open: [], steps: steps.reverse().map(({ event, before }) => ({ event, x: drawnEvents.length - before - 0.5 })) };
  const lanes = new Set();
  const useLane = (name) => (lanes.add(name), name);
  const heldByStrike = new Map(); // position of a rule's hit -> the message that it holds
  const lastStates = new Map(); // lane and transactional id -> the bar of its last state
  const openBars = new Map(); // lane and producer -> the bar of its open transaction
  drawnEvents.forEach((event, x) => {
    const lane = laneOf(event, nodes);
    if (lane === null) return;
    const t = transactionAt(event) ?? transactionOf(event);
    const client = event.k.startsWith("msg.") ? clientOf(event) : null;
    const cause = event.p.length ? columnOf.get(event.p[0]) : undefined;
    const bad = event.k === "msg.drop" || event.k.endsWith(".refused") || event.k === "log.reject" || hasFailed(event);
    const arrow = (from, to, x0, x1, text) => drawing.arrows.push({ event, from: useLane(from), to: useLane(to), x0, x1, text, t, bad });
    if (event.k === "msg.recv" && client && !event.d.response) {
      const strike = holdOf(event, x, drawnEvents);
      if (!strike) arrow(client, lane, x - 0.7, x, event.d.api);
    } else if (event.k === "msg.send" && client) arrow(lane, client, x, x + 0.7, event.d.error ?? event.d.api);
    else if (event.k === "msg.hold") {
      const hit = event.p.find((i) => events[indexOf(i) ?? -1]?.k === "fault.hit");
      const heldMessage = { event, from: useLane(client ?? event.d.peer), to: useLane(lane), x0: x - 0.7, x1: null, text: event.d.response ? `answer to ${event.d.api}` : event.d.api, rule: events[indexOf(hit) ?? -1]?.d.rule, t };
      heldByStrike.set(hit, heldMessage);
      drawing.held.push(heldMessage);
    } else if (event.k === "fault.release" && heldByStrike.has(event.p[0])) heldByStrike.get(event.p[0]).x1 = x;
    else if (cause !== undefined && drawnEvents[cause].node !== event.node && !drawnEvents[cause].k.startsWith("fault.") && !event.k.startsWith("client.")) {
      const from = laneOf(drawnEvents[cause], nodes);
      if (from && from !== lane) arrow(from, lane, cause, x, event.k === "marker.written" ? `${event.d.committed ? "COMMIT" : "ABORT"} marker` : "");
    }
    if (event.k === "txn.complete") {
      const key = `${lane} ${idOf(event.tx)}`;
      if (lastStates.has(key)) lastStates.get(key).x1 = x;
      const bar = { lane: useLane(lane), x0: x, x1: null, text: event.d.state, id: idOf(event.tx), t };
      lastStates.set(key, bar);
      drawing.states.push(bar);
    }
    if (event.k === "log.append" && event.d.txn && !openBars.has(`${lane} ${event.d.pid}`)) {
      const bar = { lane: useLane(lane), x0: x, x1: null, t, pid: event.d.pid };
      openBars.set(`${lane} ${event.d.pid}`, bar);
      drawing.open.push(bar);
    } else if (event.k === "marker.written") {
      const bar = openBars.get(`${lane} ${event.d.pid}`);
      if (bar) bar.x1 = x;
      openBars.delete(`${lane} ${event.d.pid}`);
    }
    drawing.marks.push({ event, x, lane: useLane(lane), t, bad });
  });
  separateHeld(drawing.held);
  return { ...drawing, lanes: [...lanes].sort((a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1)) };
}

/** Give messages that are held before one lane at the same time different ways, so that they don't overlap. */
function separateHeld(heldMessages) {
  heldMessages.forEach((message, n) => {
    const takenWays = heldMessages.slice(0, n).filter((earlier) => earlier.to === message.to && (earlier.x1 === null || earlier.x1 > message.x0)).map(({ way }) => way);
    message.way = 0;
    while (takenWays.includes(message.way)) message.way += 1;
  });
}

/** The event that holds an arrived request, if it follows within a few events; else null. */
function holdOf(arrival, x, drawnEvents) {
  for (let n = x + 1; n < Math.min(drawnEvents.length, x + 4); n += 1) if (drawnEvents[n].k === "msg.hold" && nearest(drawnEvents[n], ({ i }) => i === arrival.i)) return drawnEvents[n];
  return null;
}
