// @ts-check
// What the lanes draw of the events up to an index: a lane for each node, messages between them (also held ones),
// states of coordinators, open transactions of partitions. An x coordinate is the number of a drawn event.

import { HOUSEKEEPING_APIS, OUTSIDERS } from "./stage.js";
import { newestTransactionAt, transactionOf } from "./tape.js";
import { events, indexOfPosition, nearestAncestor } from "./store.js";
import { transactionalIdOf } from "./reducer.js";
import { hasFailed } from "./words.js";

/** At most so many events are examined, and at most so many of them drawn. */
const EXAMINED_EVENTS_MAX = 3000;
const DRAWN_EVENTS_MAX = 200;
/** Kinds that are not drawn: another event tells the same, or they are of no interest. */
const UNDRAWN_KINDS = new Set([
  "conn.open", "conn.close", "txn.load", "txn.unload", "txn.prepare", "txn.decide", "txn.append", "log.hw", "verify.ask", "fault.hit", "node.role",
  "node.state", "marker.acked", "marker.owed", "pid.open", "pid.close", "pid.bump", "log.aborted", "snapshot", "check.pass", "group.offset_pending",
]);
const COORDINATOR_APIS = new Set(["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"]);
const peerClientOf = ({ d }) => (d?.peer?.startsWith("client/") ? d.peer : null);
const isOutsiderClient = (name) => name?.startsWith("client/") && OUTSIDERS.has(name.slice("client/".length));

/** Whether an event is drawn when housekeeping is left out. */
export function isDrawnByDefault(event) {
  if (UNDRAWN_KINDS.has(event.k) || (event.k === "node.up" && event.t === 0) || isOutsiderClient(event.node) || isOutsiderClient(peerClientOf(event)) || event.node === "onlooker") return false;
  if (!event.k.startsWith("msg.")) return true;
  return !HOUSEKEEPING_APIS.has(event.d.api) && event.d.api !== "AllocateProducerIds" && !(event.k === "msg.send" && !hasFailed(event));
}

/** The lane of an event: a request is drawn where it is handled. Null for events that have no lane. */
function laneOf(event, nodeNames) {
  if (event.k === "note" || event.k === "input" || event.k.startsWith("check.")) return null;
  if (event.k.startsWith("fault.")) return "fault";
  if (event.k.startsWith("msg.") && /^broker\/\d+$/.test(event.node)) {
    const nodeRole = COORDINATOR_APIS.has(event.d.api) ? "txn" : event.d.api === "Produce" || event.d.api === "WriteTxnMarkers" ? "log" : null;
    const candidateNodes = nodeRole && nodeNames.filter((name) => name.startsWith(`${event.node}/${nodeRole}/`));
    if (candidateNodes?.length === 1) return candidateNodes[0];
  }
  return event.node;
}

const LANE_ORDER = [/^client\//, /\/txn\//, /\/log\//, /^broker\//, /./];
const laneRank = (name) => LANE_ORDER.findIndex((pattern) => pattern.test(name));

/** The title of a node's lane. */
export function laneTitle(node) {
  const [, broker, kind, part] = /^broker\/(\d+)(?:\/(txn|log)\/(.*))?$/.exec(node) ?? [];
  if (!broker) return node.replace(/^client\//, "");
  if (kind === "txn") return `coordinator · broker ${broker}`;
  return kind === "log" ? `${part} · broker ${broker}` : `broker ${broker}`;
}

/** Everything that the lanes draw up to an index, as plain values. */
export function lanesDrawing(index, withHousekeeping) {
  const drawnEvents = [];
  const storySteps = [];
  for (let eventIndex = index; eventIndex >= Math.max(0, index - EXAMINED_EVENTS_MAX) && drawnEvents.length < DRAWN_EVENTS_MAX; eventIndex -= 1) {
    const event = events[eventIndex];
    if (event.k === "note" && event.node === "scenario") storySteps.push({ event, before: drawnEvents.length });
    else if (withHousekeeping || isDrawnByDefault(event)) drawnEvents.push(event);
  }
  drawnEvents.reverse();
  const nodeNames = [...new Set(drawnEvents.map((event) => event.node))];
  const columnByPosition = new Map(drawnEvents.map((event, n) => [event.i, n]));
  const laneDrawing = { events: drawnEvents, marks: [], arrows: [], held: [], states: [], open: [], steps: storySteps.reverse().map(({ event, before }) => ({ event, x: drawnEvents.length - before - 0.5 })) };
  const laneNames = new Set();
  const addLane = (name) => (laneNames.add(name), name);
  const heldMessageByHit = new Map(); // position of a rule's hit -> the message that it holds
  const lastBarByState = new Map(); // lane and transactional id -> the bar of its last state
  const openBarByProducer = new Map(); // lane and producer -> the bar of its open transaction
  drawnEvents.forEach((event, x) => {
    const lane = laneOf(event, nodeNames);
    if (lane === null) return;
    const transaction = newestTransactionAt(event) ?? transactionOf(event);
    const clientName = event.k.startsWith("msg.") ? peerClientOf(event) : null;
    const causeColumn = event.p.length ? columnByPosition.get(event.p[0]) : undefined;
    const isFailure = event.k === "msg.drop" || event.k.endsWith(".refused") || event.k === "log.reject" || hasFailed(event);
    const addArrow = (from, to, x0, x1, text) => laneDrawing.arrows.push({ event, from: addLane(from), to: addLane(to), x0, x1, text, t: transaction, bad: isFailure });
    if (event.k === "msg.recv" && clientName && !event.d.response) {
      const holdEvent = holdAfterArrival(event, x, drawnEvents);
      if (!holdEvent) addArrow(clientName, lane, x - 0.7, x, event.d.api);
    } else if (event.k === "msg.send" && clientName) addArrow(lane, clientName, x, x + 0.7, event.d.error ?? event.d.api);
    else if (event.k === "msg.hold") {
      const hitPosition = event.p.find((i) => events[indexOfPosition(i) ?? -1]?.k === "fault.hit");
      const heldMessage = { event, from: addLane(clientName ?? event.d.peer), to: addLane(lane), x0: x - 0.7, x1: null, text: event.d.response ? `answer to ${event.d.api}` : event.d.api, rule: events[indexOfPosition(hitPosition) ?? -1]?.d.rule, t: transaction };
      heldMessageByHit.set(hitPosition, heldMessage);
      laneDrawing.held.push(heldMessage);
    } else if (event.k === "fault.release" && heldMessageByHit.has(event.p[0])) heldMessageByHit.get(event.p[0]).x1 = x;
    else if (causeColumn !== undefined && drawnEvents[causeColumn].node !== event.node && !drawnEvents[causeColumn].k.startsWith("fault.") && !event.k.startsWith("client.")) {
      const causeLane = laneOf(drawnEvents[causeColumn], nodeNames);
      if (causeLane && causeLane !== lane) addArrow(causeLane, lane, causeColumn, x, event.k === "marker.written" ? `${event.d.committed ? "COMMIT" : "ABORT"} marker` : "");
    }
    if (event.k === "txn.complete") {
      const stateKey = `${lane} ${transactionalIdOf(event.tx)}`;
      if (lastBarByState.has(stateKey)) lastBarByState.get(stateKey).x1 = x;
      const stateBar = { lane: addLane(lane), x0: x, x1: null, text: event.d.state, id: transactionalIdOf(event.tx), t: transaction };
      lastBarByState.set(stateKey, stateBar);
      laneDrawing.states.push(stateBar);
    }
    if (event.k === "log.append" && event.d.txn && !openBarByProducer.has(`${lane} ${event.d.pid}`)) {
      const openBar = { lane: addLane(lane), x0: x, x1: null, t: transaction, pid: event.d.pid };
      openBarByProducer.set(`${lane} ${event.d.pid}`, openBar);
      laneDrawing.open.push(openBar);
    } else if (event.k === "marker.written") {
      const closedBar = openBarByProducer.get(`${lane} ${event.d.pid}`);
      if (closedBar) closedBar.x1 = x;
      openBarByProducer.delete(`${lane} ${event.d.pid}`);
    }
    laneDrawing.marks.push({ event, x, lane: addLane(lane), t: transaction, bad: isFailure });
  });
  separateHeldMessages(laneDrawing.held);
  return { ...laneDrawing, lanes: [...laneNames].sort((a, b) => laneRank(a) - laneRank(b) || (a < b ? -1 : 1)) };
}

/** Give messages that are held before one lane at the same time different ways, so that they don't overlap. */
function separateHeldMessages(heldMessages) {
  heldMessages.forEach((message, n) => {
    const takenRows = heldMessages.slice(0, n).filter((otherMessage) => otherMessage.to === message.to && (otherMessage.x1 === null || otherMessage.x1 > message.x0)).map(({ way }) => way);
    message.way = 0;
    while (takenRows.includes(message.way)) message.way += 1;
  });
}

/** The event that holds an arrived request, if it follows within a few events; else null. */
function holdAfterArrival(arrivalEvent, x, drawnEvents) {
  for (let column = x + 1; column < Math.min(drawnEvents.length, x + 4); column += 1) if (drawnEvents[column].k === "msg.hold" && nearestAncestor(drawnEvents[column], ({ i }) => i === arrivalEvent.i)) return drawnEvents[column];
  return null;
}
