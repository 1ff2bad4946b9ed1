// @ts-check
// What the lanes draw of the events up to an index: who takes part, messages between them with what was
// held, states of coordinators, open transactions of partitions. Places are numbers of shown events.

import { HOUSEKEEPING, OUTSIDERS } from "./stage.js";
import { transactionAt, transactionOf } from "./tape.js";
import { events, indexOf, nearest } from "./store.js";
import { idOf } from "./reducer.js";
import { hasFailed } from "./words.js";

/** So many events are looked at, and so many are drawn. */
const LOOKED_AT = 3000;
const SHOWN = 200;
/** Told by their ends, or of no interest. */
const QUIET = new Set([
  "conn.open", "conn.close", "txn.load", "txn.unload", "txn.prepare", "txn.decide", "txn.append", "log.hw", "verify.ask", "fault.hit", "node.role",
  "node.state", "marker.acked", "marker.owed", "pid.open", "pid.close", "pid.bump", "log.aborted", "snapshot", "check.pass", "group.offset_pending",
]);
const TO_COORDINATOR = new Set(["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"]);
const clientOf = ({ d }) => (d?.peer?.startsWith("client/") ? d.peer : null);
const outsider = (name) => name?.startsWith("client/") && OUTSIDERS.has(name.slice("client/".length));

/** Whether an event is drawn where housekeeping is not wanted. */
export function isTelling(one) {
  if (QUIET.has(one.k) || (one.k === "node.up" && one.t === 0) || outsider(one.node) || outsider(clientOf(one)) || one.node === "onlooker") return false;
  if (!one.k.startsWith("msg.")) return true;
  return !HOUSEKEEPING.has(one.d.api) && one.d.api !== "AllocateProducerIds" && !(one.k === "msg.send" && !hasFailed(one));
}

/** Lane of an event: a request stands where it is dealt with. */
function laneOf(one, nodes) {
  if (one.k === "note" || one.k === "input" || one.k.startsWith("check.")) return null;
  if (one.k.startsWith("fault.")) return "fault";
  if (one.k.startsWith("msg.") && /^broker\/\d+$/.test(one.node)) {
    const part = TO_COORDINATOR.has(one.d.api) ? "txn" : one.d.api === "Produce" || one.d.api === "WriteTxnMarkers" ? "log" : null;
    const found = part && nodes.filter((name) => name.startsWith(`${one.node}/${part}/`));
    if (found?.length === 1) return found[0];
  }
  return one.node;
}

const RANK = [/^client\//, /\/txn\//, /\/log\//, /^broker\//, /./];
const rankOf = (name) => RANK.findIndex((one) => one.test(name));

/** What a lane is called. */
export function nameOf(node) {
  const [, broker, kind, part] = /^broker\/(\d+)(?:\/(txn|log)\/(.*))?$/.exec(node) ?? [];
  if (!broker) return node.replace(/^client\//, "");
  if (kind === "txn") return `coordinator · broker ${broker}`;
  return kind === "log" ? `${part} · broker ${broker}` : `broker ${broker}`;
}

/** Everything that is drawn up to an index. */
export function picture(index, all) {
  const shown = [];
  const steps = [];
  for (let n = index; n >= Math.max(0, index - LOOKED_AT) && shown.length < SHOWN; n -= 1) {
    const one = events[n];
    if (one.k === "note" && one.node === "scenario") steps.push({ one, before: shown.length });
    else if (all || isTelling(one)) shown.push(one);
  }
  shown.reverse();
  const nodes = [...new Set(shown.map((one) => one.node))];
  const place = new Map(shown.map((one, n) => [one.i, n]));
  const found = { shown, marks: [], arrows: [], held: [], states: [], open: [], steps: steps.reverse().map(({ one, before }) => ({ one, x: shown.length - before - 0.5 })) };
  const lanes = new Set();
  const at = (name) => (lanes.add(name), name);
  const waiting = new Map(); // position of a strike -> the message that it holds
  const moved = new Map(); // lane -> its last state
  const opened = new Map(); // lane and producer -> since where
  shown.forEach((one, x) => {
    const lane = laneOf(one, nodes);
    if (lane === null) return;
    const t = transactionAt(one) ?? transactionOf(one);
    const client = one.k.startsWith("msg.") ? clientOf(one) : null;
    const cause = one.p.length ? place.get(one.p[0]) : undefined;
    const bad = one.k === "msg.drop" || one.k.endsWith(".refused") || one.k === "log.reject" || hasFailed(one);
    const arrow = (from, to, x0, x1, text) => found.arrows.push({ one, from: at(from), to: at(to), x0, x1, text, t, bad });
    if (one.k === "msg.recv" && client && !one.d.response) {
      const strike = holdOf(one, x, shown);
      if (!strike) arrow(client, lane, x - 0.7, x, one.d.api);
    } else if (one.k === "msg.send" && client) arrow(lane, client, x, x + 0.7, one.d.error ?? one.d.api);
    else if (one.k === "msg.hold") {
      const hit = one.p.find((i) => events[indexOf(i) ?? -1]?.k === "fault.hit");
      const item = { one, from: at(client ?? one.d.peer), to: at(lane), x0: x - 0.7, x1: null, text: one.d.response ? `answer to ${one.d.api}` : one.d.api, rule: events[indexOf(hit) ?? -1]?.d.rule, t };
      waiting.set(hit, item);
      found.held.push(item);
    } else if (one.k === "fault.release" && waiting.has(one.p[0])) waiting.get(one.p[0]).x1 = x;
    else if (cause !== undefined && shown[cause].node !== one.node && !shown[cause].k.startsWith("fault.") && !one.k.startsWith("client.")) {
      const from = laneOf(shown[cause], nodes);
      if (from && from !== lane) arrow(from, lane, cause, x, one.k === "marker.written" ? `${one.d.committed ? "COMMIT" : "ABORT"} marker` : "");
    }
    if (one.k === "txn.complete") {
      const key = `${lane} ${idOf(one.tx)}`;
      if (moved.has(key)) moved.get(key).x1 = x;
      const bar = { lane: at(lane), x0: x, x1: null, text: one.d.state, id: idOf(one.tx), t };
      moved.set(key, bar);
      found.states.push(bar);
    }
    if (one.k === "log.append" && one.d.txn && !opened.has(`${lane} ${one.d.pid}`)) {
      const bar = { lane: at(lane), x0: x, x1: null, t, pid: one.d.pid };
      opened.set(`${lane} ${one.d.pid}`, bar);
      found.open.push(bar);
    } else if (one.k === "marker.written") {
      const bar = opened.get(`${lane} ${one.d.pid}`);
      if (bar) bar.x1 = x;
      opened.delete(`${lane} ${one.d.pid}`);
    }
    found.marks.push({ one, x, lane: at(lane), t, bad });
  });
  apart(found.held);
  return { ...found, lanes: [...lanes].sort((a, b) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1)) };
}

/** What is held before a lane at the same time has a way of its own. */
function apart(held) {
  held.forEach((one, n) => {
    const taken = held.slice(0, n).filter((other) => other.to === one.to && (other.x1 === null || other.x1 > one.x0)).map(({ way }) => way);
    one.way = 0;
    while (taken.includes(one.way)) one.way += 1;
  });
}

/** Whether what was received is held right behind. */
function holdOf(one, x, shown) {
  for (let n = x + 1; n < Math.min(shown.length, x + 4); n += 1) if (shown[n].k === "msg.hold" && nearest(shown[n], ({ i }) => i === one.i)) return shown[n];
  return null;
}
