// @ts-check
// What the stage shows at the cursor: what coordinators believe, what is on its way, what partitions
// believe, and where they disagree. It reads the state and the events; judgements are the server's.

import { countUpTo } from "./book.js";
import { parseOwedKey, transactionalIdOf } from "./reducer.js";
import { causeChainOf, events, getHoldIndices, indexOfPosition, stateMovesOf, nearestAncestor, storyNotes, getReleaseIndices } from "./store.js";
import { transactionBegunUntil } from "./tape.js";

/** So many of a kind are drawn; the rest is behind a list. */
export const SHOWN_MAX = 3;
const STATES_MAX = 4;
const MESSAGES_MAX = 4;
/** Where no story has steps, the last so many events are "just now". */
const JUST_NOW_EVENT_COUNT = 40;
/** So many events of a step are looked at: the last one of a story goes on for as long as its cluster. */
const STEP_EVENTS_MAX = 2000;
/** Held messages and releases that are looked at, newest first. */
const EXAMINED_HOLDS_MAX = 200;
/** So many events back clients and readers are looked for. */
const RECENT_EVENT_COUNT = 400;
const CLIENTS_MAX = 8;
/** What clients ask only to find their way. */
export const HOUSEKEEPING_APIS = new Set(["IncrementalAlterConfigs", "DescribeConfigs", "DescribeTransactions", "ListTransactions", "DescribeProducers", "ApiVersions", "Metadata", "FindCoordinator", "SaslHandshake", "SaslAuthenticate", "GetTelemetrySubscriptions", "PushTelemetry", "DescribeCluster"]);
/** What clients and coordinators send about transactions; the rest is housekeeping. */
export const TXN_APIS = new Set(["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "Produce", "EndTxn", "WriteTxnMarkers"]);
/** The request that carries a marker, for a rule about the next one. */
const MARKER_REQUEST = { point: "peer.request", api: "WriteTxnMarkers" };
const MESSAGE_STATUS_WORDS = { held: "held", delayed: "delayed", released: "was held, released", owed: "owed", delivered: "delivered", refused: "refused", lost: "lost", cancelled: "never sent", doubled: "arrives twice" };

/** The step of the story that an index lies in: {number, from, to}; null before the first. */
export function stepAt(index) {
  const number = countUpTo(storyNotes(), index);
  if (!number) return null;
  const nextNoteIndex = storyNotes()[number];
  return { number, from: storyNotes()[number - 1], to: (nextNoteIndex ?? events.length) - 1 };
}

const compareNames = new Intl.Collator("en", { numeric: true }).compare;
const NO_VERDICT = { partitions: [], unfinished: [] };
const namesInOrder = (names, otherNames) => [...new Set([...names, ...otherNames.sort(compareNames)])];

/** Transactional ids of which the judge tells something, what hangs first. */
export function judgedIds(verdict) {
  const { partitions, unfinished } = verdict ?? NO_VERDICT;
  const judgedTxns = [...partitions.flatMap((judged) => judged.open_txns), ...unfinished];
  return [...new Set([...judgedTxns.filter(({ state }) => state === "hangs"), ...judgedTxns].map((txn) => txn.transactional_id))];
}

/** Transactional ids, those in trouble first; or only those of which something hangs. */
export function idsOf(clusterState, verdict, isHanging = false) {
  const hangingIds = new Set((verdict ?? NO_VERDICT).partitions.flatMap((judged) => judged.open_txns.filter(({ state }) => state === "hangs").map((txn) => txn.transactional_id)));
  return namesInOrder(judgedIds(verdict), Object.keys(clusterState.transactions)).filter((id) => id in clusterState.transactions && (!isHanging || hangingIds.has(id)));
}

/** Partitions of users, and others where a transaction hangs, those in trouble first; or only where one hangs. */
export function partitionsOf(clusterState, verdict, isHanging = false) {
  const hangingPartitions = new Set((verdict ?? NO_VERDICT).partitions.filter((judged) => judged.open_txns.some(({ state }) => state === "hangs")).map(({ partition }) => partition));
  const names = namesInOrder((verdict ?? NO_VERDICT).partitions.map(({ partition }) => partition), Object.keys(clusterState.logs));
  return names.filter((tp) => tp in clusterState.logs && (hangingPartitions.has(tp) || (!isHanging && !tp.startsWith("__"))));
}

/** Markers that coordinators owe: whose, where, and how they stand. */
const owedMarkersOf = (clusterState) => Object.entries(clusterState.owed).map(([key, marker]) => ({ key, ...parseOwedKey(key), marker }));

/** What a coordinator believes of a transactional id. */
export function coordinatorBeliefOf(clusterState, id, index) {
  const moveIndices = stateMovesOf(id);
  const moves = []; // the states that it has passed, each with the index of the event that began it
  for (let n = countUpTo(moveIndices, index) - 1; n >= 0; n -= 1) {
    const { state } = events[moveIndices[n]].d;
    if (moves[0]?.name === state) moves[0].n = moveIndices[n];
    else if (moves.length === STATES_MAX) break;
    else moves.unshift({ name: state, n: moveIndices[n] });
  }
  const owedMarkers = owedMarkersOf(clusterState).filter((owed) => owed.id === id);
  return { id, entry: clusterState.transactions[id], passed: moves.map(({ name }) => name), moves, transaction: transactionBegunUntil(id, index), owed: owedMarkers.map(({ tp, marker }) => ({ tp, ...marker })) };
}

const clientOrBrokerName = (node) => (node.startsWith("client/") ? node.slice("client/".length) : node.replace(/^broker\//, "broker "));

/** The strike that has held a message. */
const strikeOf = (holdEvent) => holdEvent.p.map((position) => events[indexOfPosition(position) ?? -1]).find((cause) => cause?.k === "fault.hit");

/** Whether the cluster has a transactional id or a partition of users. */
export const hasUserData = (clusterState) => Object.keys(clusterState.transactions).length > 0 || Object.keys(clusterState.logs).some((tp) => !tp.startsWith("__"));

/** Messages that are held or delayed at an index, oldest first, each with its strike. */
function heldMessagesAt(clusterState, index) {
  const newestUntil = (indices) => indices.slice(Math.max(0, countUpTo(indices, index) - EXAMINED_HOLDS_MAX), countUpTo(indices, index));
  const releasedStrikes = new Set(newestUntil(getReleaseIndices()).map((n) => events[n].p[0]));
  return newestUntil(getHoldIndices()).map((n) => ({ holdEvent: events[n], strike: strikeOf(events[n]) })).filter(({ strike }) => !releasedStrikes.has(strike?.i) && !isHoldOver(clusterState, strike, events[index]));
}

/** Whether what a strike has kept goes on by itself, or is gone with its broker: nothing in the trace says that it was released. */
function isHoldOver(clusterState, strike, event) {
  const delayUs = delayUsOf(strike);
  return delayUs === null ? Boolean(strike) && !clusterState.faults[strike.d.rule]?.held : event.t - strike.t >= delayUs;
}

/** How long a strike delays, in microseconds; null where it waits for a release. */
function delayUsOf(strike) {
  const [, ms] = /^delay (\d+) ms/.exec(strike?.d.action ?? "") ?? [];
  return ms === undefined ? null : Number(ms) * 1000;
}

/** Whether what a strike holds is the marker of a producer for a partition. */
const isMarkerOf = (strike, pid, tp) => Boolean(strike?.d.about?.some((markers) => markers.pid === pid && markers.partitions.includes(tp)));

/** Who sent a message, and to whom: answers of brokers among themselves are told by the one who asked. */
function senderAndReceiver({ node, d: { peer, response } }) {
  const [ownName, peerName] = [clientOrBrokerName(node), clientOrBrokerName(peer)];
  return response && peer.startsWith("client/") ? { from: ownName, to: peerName } : { from: peerName, to: ownName };
}

/** The event of the message that a strike has held. */
function holdEventOf(strikePosition) {
  const holdIndices = getHoldIndices();
  for (let n = holdIndices.length - 1; n >= Math.max(0, holdIndices.length - EXAMINED_HOLDS_MAX); n -= 1) if (events[holdIndices[n]].p.includes(strikePosition)) return events[holdIndices[n]];
  return null;
}

const messageLabelOf = ({ d: { api, response } }) => (response ? `answer to ${api}` : api);
/** Where a message crosses, for a rule about the next one like it. */
const nextMatchOf = ({ d: { api, peer, response } }) => {
  const isClient = peer?.startsWith("client/");
  return { point: `${isClient ? "client" : "peer"}.${response ? "response" : "request"}`, api, ...(isClient ? { client_id: clientOrBrokerName(peer) } : {}) };
};

/** What is on its way at an index (`isDue`): what is held, markers that are owed. And what the step of the story
 *  has sent, and is there or lost by now. `nextMatch` says what a rule about the next such message asks for, `status` how it
 *  stands; of a marker that is owed the server says it (`markerWords`). */
export function messagesAt(clusterState, index, markerWords = {}) {
  const heldMessages = heldMessagesAt(clusterState, index).map(({ holdEvent, strike }) => ({
    ...senderAndReceiver(holdEvent), key: holdEvent.i, how: delayUsOf(strike) === null ? "held" : "delayed", label: messageLabelOf(holdEvent), detail: sentRecordsText(holdEvent), rule: strike?.d.rule ?? null, event: holdEvent, nextMatch: nextMatchOf(holdEvent), isDue: true, strike,
  }));
  const carrierMessages = new Set(); // requests that are shown as the markers that they carry
  const owedMarkers = owedMarkersOf(clusterState).map(({ key, id, pid, tp, marker }) => {
    const heldCarriers = heldMessages.filter((message) => message.label === "WriteTxnMarkers" && isMarkerOf(message.strike, pid, tp));
    heldCarriers.forEach((message) => carrierMessages.add(message));
    const [carrierMessage] = heldCarriers;
    const wordsOfMarker = markerWords[`${id} ${tp}`];
    const isDelayed = carrierMessage?.how === "delayed" && wordsOfMarker?.how === "owed";
    const [how, status] = wordsOfMarker && !isDelayed ? [wordsOfMarker.how, wordsOfMarker.text] : [carrierMessage?.how ?? "owed", undefined];
    return {
      key: `${key} ${marker.i}`, how, status, from: `coordinator of ${id}`, to: tp,
      label: `${marker.committed ? "COMMIT" : "ABORT"} marker`, detail: marker.error ?? "", rule: carrierMessage?.rule ?? null, event: events[indexOfPosition(marker.i) ?? -1],
      nextMatch: MARKER_REQUEST, isDue: true,
    };
  });
  const dueArrivals = new Set([...heldMessages, ...owedMarkers].map(({ event }) => event?.p?.length && receiveEventOf(event)?.i));
  const dueMessages = [...heldMessages.filter((message) => !carrierMessages.has(message)), ...owedMarkers];
  return withRepeatsCounted([...dueMessages, ...recentMessagesAt(index, dueArrivals)]).slice(0, Math.max(dueMessages.length, MESSAGES_MAX)).map((message) => ({ ...message, status: message.status ?? `${MESSAGE_STATUS_WORDS[message.how]}${message.rule ? ` by ${message.rule}` : ""}` }));
}

/** The same message of the same client, sent again: once, with how often. */
function withRepeatsCounted(messages) {
  const messageByKey = new Map();
  for (const message of messages) {
    const messageKey = JSON.stringify([message.from, message.to, message.label, message.detail, message.how, message.rule, message.isDue]);
    const firstMessage = messageByKey.get(messageKey);
    if (firstMessage) firstMessage.times += 1;
    else messageByKey.set(messageKey, { ...message, times: 1 });
  }
  return [...messageByKey.values()];
}

const receiveEventOf = (event) => nearestAncestor(event, (ancestor) => ancestor.k === "msg.recv");

/** What the client's call wanted to send with this message. */
function sentRecordsText(event) {
  if (event.d.api !== "Produce") return "";
  const clientCall = nearestAncestor(event, (ancestor) => ancestor.k === "client.call");
  const records = (clientCall?.d.args?.records ?? []).filter(Boolean);
  return records.map((recordValue) => `“${recordValue}”`).join(", ");
}

/** What was delivered in this step of the story, or lost or doubled, newest first. `shownArrivals`: positions of arrivals
 *  whose message is shown already. */
function recentMessagesAt(index, shownArrivals) {
  const firstIndex = Math.max(stepAt(index)?.from ?? index - JUST_NOW_EVENT_COUNT, index - STEP_EVENTS_MAX);
  const errorByRequest = new Map(); // peer and correlation id -> the error of the answer
  const errorByArrival = new Map(); // position of a request's arrival -> the error with which it was refused
  const messages = [];
  const addMessage = (event, how, detail = sentRecordsText(event), key = event.i) => {
    messages.push({ ...senderAndReceiver(event), key, how, label: messageLabelOf(event), detail, rule: null, event, nextMatch: nextMatchOf(event) });
  };
  const addMarker = (event, how, from, detail) => {
    messages.push({ key: event.i, how, from, to: event.d.tp, label: `${event.d.committed ? "COMMIT" : "ABORT"} marker`, detail, rule: null, event, nextMatch: MARKER_REQUEST });
  };
  for (let n = index; n >= Math.max(0, firstIndex); n -= 1) {
    const event = events[n];
    const { k, d } = event;
    if (k === "fault.release" && event.p.length) {
      const holdEvent = holdEventOf(event.p[0]);
      const receiveEvent = holdEvent && receiveEventOf(holdEvent);
      const error = errorByArrival.get(receiveEvent?.i);
      if (holdEvent && !shownArrivals.has(holdEvent.i)) addMessage(holdEvent, error ? "refused" : "released", error ?? sentRecordsText(holdEvent), event.i);
      shownArrivals.add(receiveEvent?.i);
    } else if (k === "msg.drop" || k === "msg.dup") {
      for (const cause of causeChainOf(event)) if (cause.k === "msg.recv" || cause.k === "fault.hit") shownArrivals.add(holdEventOf(cause.i)?.i ?? cause.i);
      addMessage(event, k === "msg.drop" ? "lost" : "doubled");
    } else if (k === "marker.cancelled" && d.tp) {
      addMarker(event, "cancelled", `coordinator of ${transactionalIdOf(event.tx)}`, d.reason);
    } else if (k === "msg.send" && d.response) {
      errorByRequest.set(`${d.peer} ${d.correlation}`, d.error);
      if (d.error && d.error !== "NONE") for (const cause of event.p) errorByArrival.set(cause, d.error);
    } else if (k === "marker.written") {
      addMarker(event, "delivered", "coordinator", `written at ${d.offset}`);
    } else if (k === "msg.recv" && !d.response && TXN_APIS.has(d.api) && d.peer?.startsWith("client/") && !shownArrivals.has(event.i)) {
      const error = errorByRequest.get(`${d.peer} ${d.correlation}`);
      const isRefused = Boolean(error) && error !== "NONE";
      addMessage(event, isRefused ? "refused" : "delivered", isRefused ? error : sentRecordsText(event));
    }
  }
  return messages;
}

/** Programs that look from outside, or are the page itself: they are no part of what happens. */
export const OUTSIDERS = new Set(["onlooker", "page", "operator"]);

/** Clients that have sent a request lately, stock ones too, each with the API of its last one. */
export function recentClientsAt(index) {
  const apiByClient = new Map();
  for (let n = index; n >= Math.max(0, index - RECENT_EVENT_COUNT) && apiByClient.size < CLIENTS_MAX; n -= 1) {
    const { k, d } = events[n];
    if (k !== "msg.recv" || d.response || !d.peer?.startsWith("client/")) continue;
    const clientName = clientOrBrokerName(d.peer);
    if (!OUTSIDERS.has(clientName) && !(apiByClient.has(clientName) && HOUSEKEEPING_APIS.has(d.api))) {
      if (!apiByClient.has(clientName) || HOUSEKEEPING_APIS.has(apiByClient.get(clientName))) apiByClient.set(clientName, d.api);
    }
  }
  return [...apiByClient].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** The high watermark of a partition; null where the trace does not tell it. At brief nothing tells that it
 *  has moved, but a single replica's is its log end, and none is below the last stable offset. */
export const highWatermark = ({ level }, { hw, lso, end, replicas }) => (level === "full" ? hw : replicas === 1 || lso >= end ? end : null);
