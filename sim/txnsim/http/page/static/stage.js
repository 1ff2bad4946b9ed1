// @ts-check
// What the stage shows at the cursor: what coordinators believe, what is on its way, what partitions
// believe, and where they disagree. It reads the state and the events; judgements are the server's.

import { upTo } from "./book.js";
import { idOf } from "./reducer.js";
import { begunOf, chainOf, events, holds, indexOf, movesOf, notes, releases } from "./store.js";
import { outcomeOf, tape, transactionOf } from "./tape.js";

/** So many of a kind are drawn; the rest is behind a list. */
export const SHOWN_MAX = 3;
const STATES_MAX = 4;
const MESSAGES_MAX = 4;
/** Where no story has steps, what so many events told is "just now". */
const JUST_NOW = 40;
/** Held messages and releases that are looked at, newest first. */
const HELD_MAX = 200;
/** What clients and coordinators send about transactions; the rest is housekeeping. */
const TELLING = new Set(["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "Produce", "EndTxn", "WriteTxnMarkers"]);
const TROUBLE = { hanging: 0, unknown: 1, decided: 2, alive: 3 };
const NO_TROUBLE = 4;

/** The step of the story that an index lies in: {number, from, to}; null before the first. */
export function stepAt(index) {
  const number = upTo(notes(), index);
  if (!number) return null;
  const next = notes()[number];
  return { number, from: notes()[number - 1], to: (next ?? events.length) - 1 };
}

/** In trouble first, then what moved last. */
function ranked(some, troubleOf, movedAt) {
  return [...some].sort((a, b) => troubleOf(a) - troubleOf(b) || movedAt(b) - movedAt(a) || (a < b ? -1 : 1));
}

const worst = (open, wanted) =>
  Math.min(NO_TROUBLE, ...open.filter(wanted).map((one) => TROUBLE[one.verdict] ?? TROUBLE.unknown));

/** Transactional ids, those in trouble first. */
export const idsOf = (now, open) =>
  ranked(Object.keys(now.transactions), (id) => worst(open, (one) => one.transactional_id === id), (id) => now.transactions[id].i);

/** Partitions of users, those in trouble first. */
export const partitionsOf = (now, open) =>
  ranked(Object.keys(now.logs).filter((tp) => !tp.startsWith("__")), (tp) => worst(open, (one) => one.partition === tp), (tp) => now.logs[tp].end);

/** What a coordinator believes of a transactional id. */
export function coordinated(now, id, index) {
  const entry = now.transactions[id];
  const made = movesOf(id);
  const so = upTo(made, index);
  const passed = [];
  for (let n = so - 1; n >= 0 && passed.length < STATES_MAX; n -= 1) {
    const { state } = events[made[n]].d;
    if (passed[0] !== state) passed.unshift(state);
  }
  const t = begunOf(id).findLast((one) => one.index <= index) ?? null;
  const outcome = t && outcomeOf(t, index);
  const owed = Object.entries(now.owed).filter(([key]) => idOf(key.slice(0, key.lastIndexOf(" "))) === id);
  return { id, entry, passed, t, outcome, owed: owed.map(([key, one]) => ({ tp: key.slice(key.lastIndexOf(" ") + 1), ...one })) };
}

/** What it says of its newest transaction, as the end of "The coordinator …". */
export function belief({ t, entry, outcome }) {
  if (!t) return "has begun no transaction";
  const name = `T${t.number}`;
  if (entry.state === "Ongoing") return `has ${name} open`;
  if (outcome) return `has ended ${name}: ${outcome}`;
  return `has decided to ${entry.state === "PrepareCommit" ? "commit" : "abort"} ${name}, and owes markers`;
}

const clientOf = (node) => node.replace(/^client\//, "").replace(/^broker\//, "broker ");

/** Messages that are held at an index, oldest first. */
function held(index) {
  const until = (some) => some.slice(Math.max(0, upTo(some, index) - HELD_MAX), upTo(some, index));
  const gone = new Set(until(releases()).map((n) => events[n].p[0]));
  return until(holds()).map((n) => events[n]).filter((one) => !gone.has(one.p[0]));
}

/** Who sent a held message, and to whom. */
function sides({ node, d: { peer, response } }) {
  return response ? { from: clientOf(node), to: clientOf(peer) } : { from: clientOf(peer), to: clientOf(node) };
}

/** The message that a strike has held. */
function holdOf(hit) {
  const some = holds();
  for (let n = some.length - 1; n >= Math.max(0, some.length - HELD_MAX); n -= 1) if (events[some[n]].p[0] === hit) return events[some[n]];
  return null;
}

/** Which rule holds a message. */
function ruleOf(hold) {
  const hit = events[indexOf(hold.p[0]) ?? -1];
  return hit?.d?.rule ?? null;
}

/** What is on its way at an index, or was just now: what is held, markers that are owed, and what the
 *  step of the story has sent. */
export function messages(now, index) {
  const some = held(index).map((one) => ({
    ...sides(one), key: one.i, how: "held",
    label: one.d.response ? `answer to ${one.d.api}` : one.d.api, said: sentOf(one), rule: ruleOf(one), since: one,
  }));
  const isMarkerHeld = some.some((one) => one.label === "WriteTxnMarkers");
  for (const [key, one] of Object.entries(now.owed)) {
    const cut = key.lastIndexOf(" ");
    const tp = key.slice(cut + 1);
    some.push({
      key: `${key} ${one.i}`, how: one.how === "refused" ? "refused" : isMarkerHeld ? "held" : "owed", from: `coordinator of ${idOf(key.slice(0, cut))}`, to: tp,
      label: `${one.committed ? "COMMIT" : "ABORT"} marker`, said: one.error ? `${one.how}: ${one.error}` : one.how, since: events[indexOf(one.i) ?? -1],
    });
  }
  const waiting = new Set(some.map((one) => one.since?.p?.length && received(one.since)?.i));
  return [...some.filter((one) => one.label !== "WriteTxnMarkers"), ...lately(index, waiting)].slice(0, Math.max(some.length, MESSAGES_MAX));
}

const received = (event) => chainOf(event).find((one) => one.k === "msg.recv");

/** What the client's call wanted to send with this message. */
function sentOf(event) {
  const call = chainOf(event).find((one) => one.k === "client.call");
  const records = event.d.api === "Produce" ? (call?.d.args?.records ?? []).filter(Boolean) : [];
  return records.map((one) => `“${one}”`).join(", ");
}

/** What was delivered in this step of the story, newest first. */
function lately(index, waiting) {
  const from = stepAt(index)?.from ?? index - JUST_NOW;
  const answers = new Map();
  const some = [];
  for (let n = index; n >= Math.max(0, from); n -= 1) {
    const one = events[n];
    if (one.k === "fault.release" && one.p.length) {
      const hold = holdOf(one.p[0]);
      if (hold) some.push({ ...sides(hold), key: one.i, how: "released", label: hold.d.response ? `answer to ${hold.d.api}` : hold.d.api, said: sentOf(hold), rule: null, since: hold });
    } else if (one.k === "msg.send" && one.d.response) answers.set(`${one.d.peer} ${one.d.correlation}`, one.d.error);
    else if (one.k === "marker.written") {
      some.push({ key: one.i, how: "delivered", from: "coordinator", to: one.d.tp, label: `${one.d.committed ? "COMMIT" : "ABORT"} marker`, said: `written at ${one.d.offset}`, since: one });
    } else if (one.k === "msg.recv" && !one.d.response && TELLING.has(one.d.api) && one.d.peer?.startsWith("client/") && !waiting.has(one.i)) {
      const error = answers.get(`${one.d.peer} ${one.d.correlation}`);
      const isRefused = Boolean(error) && error !== "NONE";
      some.push({ key: one.i, how: isRefused ? "refused" : "delivered", from: clientOf(one.d.peer), to: clientOf(one.node), label: one.d.api, said: isRefused ? error : sentOf(one), since: one });
    }
  }
  return some;
}

/** Whether coordinator and partition agree: {kind, title, text}. */
export function agreement(now, tp, open, index) {
  const theirs = open.filter((one) => one.partition === tp);
  const one = theirs.find((some) => worst([some], () => true) === worst(theirs, () => true));
  const other = otherwise(now, tp, index);
  if (other && one?.verdict !== "hanging") return other;
  if (!one) return { kind: "nothing", title: "They agree.", text: `No transaction is open on ${tp}.` };
  const entry = one.transactional_id !== null && now.transactions[one.transactional_id];
  const said = entry ? coordinated(now, one.transactional_id, index) : null;
  const who = said ? `The coordinator ${belief(said)}` : `No coordinator knows producer ${one.producer_id}`;
  const here = `${tp} has a transaction open since offset ${one.first}`;
  if (one.verdict === "hanging") return { kind: "hanging", title: "They disagree: hanging.", text: `${who}. ${here}. No timeout will mend this.` };
  if (one.verdict === "decided") return { kind: "decided", title: "They will agree.", text: `${who}. ${here}: its marker is still to come.` };
  if (one.verdict === "alive") return { kind: "alive", title: "They agree.", text: `${who}. ${here}. Its producer can end it, or its timeout will.` };
  return { kind: "unknown", title: "It can't be told.", text: `${who}. ${here}. ${one.reason}` };
}

/** Records whose end on a partition is not what their coordinator has decided. */
function otherwise(now, tp, index) {
  for (const cell of tape(tp, index, now.logs[tp].lso).cells) {
    if (cell.how !== "committed" && cell.how !== "aborted") continue;
    const t = transactionOf(cell.event);
    const outcome = t && outcomeOf(t, index);
    if (!outcome || outcome === cell.how) continue;
    return { kind: "hanging", title: "They disagree.", text: `The coordinator has ended T${t.number} of ${t.id}: ${outcome}. On ${tp} its record at ${cell.first} is ${cell.how}, and it stays so.` };
  }
  return null;
}

/** Index of the decisive event of a run that judges have refused: behind the step that holds the place
 *  they name. null where nothing was found, or no place is named. */
export function decisive(violations) {
  for (const { d } of violations) {
    const [, tp, offset] = /([\w.-]+-\d+)@(\d+)/.exec(d.found) ?? /^([\w.-]+-\d+): .* open since (\d+)/.exec(d.found) ?? [];
    if (!tp) continue;
    const n = events.findIndex((one) => one.k === "log.append" && one.d.tp === tp && one.d.base <= Number(offset) && Number(offset) <= one.d.last);
    if (n < 0) continue;
    const ends = d.found.includes("open since") ? n : events.findIndex((one, m) => m > n && one.k === "marker.written" && one.d.tp === tp);
    return stepAt(ends < 0 ? n : ends)?.to ?? n;
  }
  return null;
}
