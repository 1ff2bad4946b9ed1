// @ts-check
// What the stage shows at the cursor: what coordinators believe, what is on its way, what partitions
// believe, and where they disagree. It reads the state and the events; judgements are the server's.

import { countUpTo } from "./book.js";
import { idOf, owedBy } from "./reducer.js";
import { causeChainOf, events, getHoldIndices, indexOfPosition, stateMovesOf, nearestAncestor, storyNotes, getReleaseIndices } from "./store.js";
import { transactionBegunUntil } from "./tape.js";

/** So many of a kind are drawn; the rest is behind a list. */
export const SHOWN_MAX = 3;
const STATES_MAX = 4;
const MESSAGES_MAX = 4;
/** Where no story has steps, what so many events told is "just now". */
const JUST_NOW = 40;
/** So many events of a step are looked at: the last one of a story goes on for as long as its cluster. */
const STEP_MAX = 2000;
/** Held messages and releases that are looked at, newest first. */
const HELD_MAX = 200;
/** So many events back clients and readers are looked for. */
const LATELY = 400;
const CLIENTS_MAX = 8;
/** What clients ask only to find their way. */
export const HOUSEKEEPING = new Set(["IncrementalAlterConfigs", "DescribeConfigs", "DescribeTransactions", "ListTransactions", "DescribeProducers", "ApiVersions", "Metadata", "FindCoordinator", "SaslHandshake", "SaslAuthenticate", "GetTelemetrySubscriptions", "PushTelemetry", "DescribeCluster"]);
/** What clients and coordinators send about transactions; the rest is housekeeping. */
export const TXN_APIS = new Set(["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "Produce", "EndTxn", "WriteTxnMarkers"]);
const MESSAGE_STATUS_WORDS = { held: "held", delayed: "delayed", released: "was held, released", owed: "owed", delivered: "delivered", refused: "refused", lost: "lost", cancelled: "never sent", doubled: "arrives twice" };

/** The step of the story that an index lies in: {number, from, to}; null before the first. */
export function stepAt(index) {
  const number = countUpTo(storyNotes(), index);
  if (!number) return null;
  const next = storyNotes()[number];
  return { number, from: storyNotes()[number - 1], to: (next ?? events.length) - 1 };
}

const byName = new Intl.Collator("en", { numeric: true }).compare;
const NO_VERDICT = { partitions: [], unfinished: [] };
const withRest = (names, rest) => [...new Set([...names, ...rest.sort(byName)])];

/** Transactional ids of which the judge tells something, what hangs first. */
export function busyIds(verdict) {
  const { partitions, unfinished } = verdict ?? NO_VERDICT;
  const told = [...partitions.flatMap((judged) => judged.open_txns), ...unfinished];
  return [...new Set([...told.filter(({ state }) => state === "hangs"), ...told].map((txn) => txn.transactional_id))];
}

/** Transactional ids, those in trouble first; or only those of which something hangs. */
export function idsOf(now, verdict, isHanging = false) {
  const hanging = new Set((verdict ?? NO_VERDICT).partitions.flatMap((judged) => judged.open_txns.filter(({ state }) => state === "hangs").map((txn) => txn.transactional_id)));
  return withRest(busyIds(verdict), Object.keys(now.transactions)).filter((id) => id in now.transactions && (!isHanging || hanging.has(id)));
}

/** Partitions of users, and others where a transaction hangs, those in trouble first; or only where one hangs. */
export function partitionsOf(now, verdict, isHanging = false) {
  const hanging = new Set((verdict ?? NO_VERDICT).partitions.filter((judged) => judged.open_txns.some(({ state }) => state === "hangs")).map(({ partition }) => partition));
  const names = withRest((verdict ?? NO_VERDICT).partitions.map(({ partition }) => partition), Object.keys(now.logs));
  return names.filter((tp) => tp in now.logs && (hanging.has(tp) || (!isHanging && !tp.startsWith("__"))));
}

/** Markers that coordinators owe: whose, where, and how they stand. */
export const owedIn = (now) => Object.entries(now.owed).map(([key, one]) => ({ key, ...owedBy(key), one }));

/** What a coordinator believes of a transactional id. */
export function coordinated(now, id, index) {
  const entry = now.transactions[id];
  const made = stateMovesOf(id);
  const so = countUpTo(made, index);
  const moves = []; // the states that it has passed, each with the index of the event that began it
  for (let n = so - 1; n >= 0; n -= 1) {
    const { state } = events[made[n]].d;
    if (moves[0]?.name === state) moves[0].n = made[n];
    else if (moves.length === STATES_MAX) break;
    else moves.unshift({ name: state, n: made[n] });
  }
  const passed = moves.map(({ name }) => name);
  const owed = owedIn(now).filter((one) => one.id === id);
  return { id, entry, passed, moves, t: transactionBegunUntil(id, index), owed: owed.map(({ tp, one }) => ({ tp, ...one })) };
}

const clientOf = (node) => (node.startsWith("client/") ? node.slice("client/".length) : node.replace(/^broker\//, "broker "));

/** The strike that has held a message. */
const hitOf = (hold) => hold.p.map((i) => events[indexOfPosition(i) ?? -1]).find((one) => one?.k === "fault.hit");

/** Messages that are held or delayed at an index, oldest first, each with its strike. */
function held(now, index) {
  const until = (some) => some.slice(Math.max(0, countUpTo(some, index) - HELD_MAX), countUpTo(some, index));
  const gone = new Set(until(getReleaseIndices()).map((n) => events[n].p[0]));
  return until(getHoldIndices()).map((n) => ({ one: events[n], hit: hitOf(events[n]) })).filter(({ hit }) => !gone.has(hit?.i) && !isOver(now, hit, events[index]));
}

/** Whether what a strike has kept goes on by itself, or is gone with its broker: nothing in the trace says that it was released. */
function isOver(now, hit, event) {
  const delay = delayOf(hit);
  return delay === null ? Boolean(hit) && !now.faults[hit.d.rule]?.held : event.t - hit.t >= delay;
}

/** How long a strike delays, in microseconds; null where it waits for a release. */
function delayOf(hit) {
  const [, ms] = /^delay (\d+) ms/.exec(hit?.d.action ?? "") ?? [];
  return ms === undefined ? null : Number(ms) * 1000;
}

/** Whether what a strike holds is the marker of a producer for a partition. */
const isMarkerOf = (hit, pid, tp) => Boolean(hit?.d.about?.some((one) => one.pid === pid && one.partitions.includes(tp)));

/** Who sent a message, and to whom: answers of brokers among themselves are told by the one who asked. */
function sides({ node, d: { peer, response } }) {
  const [here, there] = [clientOf(node), clientOf(peer)];
  return response && peer.startsWith("client/") ? { from: here, to: there } : { from: there, to: here };
}

/** The message that a strike has held. */
function holdOf(hit) {
  const some = getHoldIndices();
  for (let n = some.length - 1; n >= Math.max(0, some.length - HELD_MAX); n -= 1) if (events[some[n]].p.includes(hit)) return events[some[n]];
  return null;
}

const labelOf = ({ d: { api, response } }) => (response ? `answer to ${api}` : api);
/** Where a message crosses, for a rule about the next one like it. */
const likeOf = ({ d: { api, peer, response } }) => {
  const isClient = peer?.startsWith("client/");
  return { point: `${isClient ? "client" : "peer"}.${response ? "response" : "request"}`, api, ...(isClient ? { client_id: clientOf(peer) } : {}) };
};

/** What is on its way at an index (`isDue`): what is held, markers that are owed. And what the step of the story
 *  has sent, and is there or lost by now. `like` says what a rule about the next such message asks for, `status` how it
 *  stands; of a marker that is owed the server says it (`markerWords`). */
export function messages(now, index, markerWords = {}) {
  const kept = held(now, index).map(({ one, hit }) => ({
    ...sides(one), key: one.i, how: delayOf(hit) === null ? "held" : "delayed", label: labelOf(one), said: sentOf(one), rule: hit?.d.rule ?? null, since: one, like: likeOf(one), isDue: true, hit,
  }));
  const carriers = new Set(); // requests that are shown as the markers that they carry
  const markers = owedIn(now).map(({ key, id, pid, tp, one }) => {
    const its = kept.filter((some) => some.label === "WriteTxnMarkers" && isMarkerOf(some.hit, pid, tp));
    its.forEach((some) => carriers.add(some));
    const [carrier] = its;
    const words = markerWords[`${id} ${tp}`];
    const isDelayed = carrier?.how === "delayed" && words?.how === "owed";
    const [how, status] = words && !isDelayed ? [words.how, words.text] : [carrier?.how ?? "owed", undefined];
    return {
      key: `${key} ${one.i}`, how, status, from: `coordinator of ${id}`, to: tp,
      label: `${one.committed ? "COMMIT" : "ABORT"} marker`, said: one.error ?? "", rule: carrier?.rule ?? null, since: events[indexOfPosition(one.i) ?? -1],
      like: { point: "peer.request", api: "WriteTxnMarkers" }, isDue: true,
    };
  });
  const waiting = new Set([...kept, ...markers].map((one) => one.since?.p?.length && received(one.since)?.i));
  const due = [...kept.filter((one) => !carriers.has(one)), ...markers];
  return alike([...due, ...lately(index, waiting)]).slice(0, Math.max(due.length, MESSAGES_MAX)).map((message) => ({ ...message, status: message.status ?? `${MESSAGE_STATUS_WORDS[message.how]}${message.rule ? ` by ${message.rule}` : ""}` }));
}

/** The same message of the same client, sent again: once, with how often. */
function alike(some) {
  const found = new Map();
  for (const one of some) {
    const key = JSON.stringify([one.from, one.to, one.label, one.said, one.how, one.rule, one.isDue]);
    const known = found.get(key);
    if (known) known.times += 1;
    else found.set(key, { ...one, times: 1 });
  }
  return [...found.values()];
}

const received = (event) => nearestAncestor(event, (one) => one.k === "msg.recv");

/** What the client's call wanted to send with this message. */
function sentOf(event) {
  if (event.d.api !== "Produce") return "";
  const call = nearestAncestor(event, (one) => one.k === "client.call");
  const records = (call?.d.args?.records ?? []).filter(Boolean);
  return records.map((one) => `“${one}”`).join(", ");
}

/** What was delivered in this step of the story, or lost or doubled, newest first. */
function lately(index, waiting) {
  const from = Math.max(stepAt(index)?.from ?? index - JUST_NOW, index - STEP_MAX);
  const answers = new Map();
  const refused = new Map(); // requests by the event of their arrival
  const some = [];
  const add = (one, how, said = sentOf(one), key = one.i) => {
    some.push({ ...sides(one), key, how, label: labelOf(one), said, rule: null, since: one, like: likeOf(one) });
  };
  for (let n = index; n >= Math.max(0, from); n -= 1) {
    const one = events[n];
    const { k, d } = one;
    if (k === "fault.release" && one.p.length) {
      const hold = holdOf(one.p[0]);
      const request = hold && received(hold);
      const error = refused.get(request?.i);
      if (hold && !waiting.has(hold.i)) add(hold, error ? "refused" : "released", error ?? sentOf(hold), one.i);
      waiting.add(request?.i);
    } else if (k === "msg.drop" || k === "msg.dup") {
      for (const cause of causeChainOf(one)) if (cause.k === "msg.recv" || cause.k === "fault.hit") waiting.add(holdOf(cause.i)?.i ?? cause.i);
      add(one, k === "msg.drop" ? "lost" : "doubled");
    } else if (k === "marker.cancelled" && d.tp) {
      some.push({ key: one.i, how: "cancelled", from: `coordinator of ${idOf(one.tx)}`, to: d.tp, label: `${d.committed ? "COMMIT" : "ABORT"} marker`, said: d.reason, rule: null, since: one, like: { point: "peer.request", api: "WriteTxnMarkers" } });
    } else if (k === "msg.send" && d.response) {
      answers.set(`${d.peer} ${d.correlation}`, d.error);
      if (d.error && d.error !== "NONE") for (const cause of one.p) refused.set(cause, d.error);
    } else if (k === "marker.written") {
      const how = d.committed ? "COMMIT" : "ABORT";
      some.push({ key: one.i, how: "delivered", from: "coordinator", to: d.tp, label: `${how} marker`, said: `written at ${d.offset}`, rule: null, since: one, like: { point: "peer.request", api: "WriteTxnMarkers" } });
    } else if (k === "msg.recv" && !d.response && TXN_APIS.has(d.api) && d.peer?.startsWith("client/") && !waiting.has(one.i)) {
      const error = answers.get(`${d.peer} ${d.correlation}`);
      const isRefused = Boolean(error) && error !== "NONE";
      add(one, isRefused ? "refused" : "delivered", isRefused ? error : sentOf(one));
    }
  }
  return some;
}

/** Programs that look from outside, or are the page itself: they are no part of what happens. */
export const OUTSIDERS = new Set(["onlooker", "page", "operator"]);

/** Clients that have asked for something lately, stock ones too, each with what it asked last. */
export function clientsAt(index) {
  const found = new Map();
  for (let n = index; n >= Math.max(0, index - LATELY) && found.size < CLIENTS_MAX; n -= 1) {
    const { k, d } = events[n];
    if (k !== "msg.recv" || d.response || !d.peer?.startsWith("client/")) continue;
    const name = clientOf(d.peer);
    if (!OUTSIDERS.has(name) && !(found.has(name) && HOUSEKEEPING.has(d.api))) {
      if (!found.has(name) || HOUSEKEEPING.has(found.get(name))) found.set(name, d.api);
    }
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** The high watermark of a partition; null where the trace does not tell it. At brief nothing tells that it
 *  has moved, but a single replica's is its log end, and none is below the last stable offset. */
export const highWatermark = ({ level }, { hw, lso, end, replicas }) => (level === "full" ? hw : replicas === 1 || lso >= end ? end : null);
