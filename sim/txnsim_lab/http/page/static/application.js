// @ts-check
// What an application knows of a transaction: what it was answered when it asked to end it. An answer that was
// held, lost, or came when the connection was closed has told it nothing. What happened since is told by
// coordinators and partitions, and no application sees it.

import { countUpTo } from "./book.js";
import { getAnswerIndices, transactionsOf, endRequestsOf, events, indexOfPosition, nearestAncestor } from "./store.js";

/** So many requests to end a transaction, and answers behind one, are looked at. */
const ASKED_MAX = 40;
const ANSWERS_MAX = 200;
const ASKED = { committed: "commit", aborted: "abort" };
const ENDS = { commit: "committed", abort: "aborted", PrepareCommit: "committed", PrepareAbort: "aborted", CompleteCommit: "committed", CompleteAbort: "aborted" };

/** The requests to end transactions of an id up to an index, oldest first: {at, n, what, call}. `at` is the position
 *  of the request, `what` committed or aborted where the trace tells it, `anew` where a producer began anew. */
function askedUntil(id, index) {
  const some = endRequestsOf(id);
  const until = countUpTo(some, index);
  const found = new Map();
  for (const n of some.slice(Math.max(0, until - ASKED_MAX), until)) {
    const { d } = events[n];
    const received = nearestAncestor(events[n], (one) => one.k === "msg.recv" && !one.d.response);
    const call = nearestAncestor(events[n], (one) => one.k === "client.call");
    const at = call?.i ?? received?.i;
    if (at === undefined) continue; // nobody asked: a timeout did it
    const before = found.get(at);
    const what = ENDS[call?.d.call] ?? ENDS[d.pending] ?? ENDS[d.state] ?? before?.what;
    const isAnew = d.command === "InitProducerId" && !(call?.d.call in ENDS);
    if (d.command === "InitProducerId" && (d.error || !isAnew)) continue;
    found.set(at, { at, n, what, call, received, isAnew });
  }
  return [...found.values()].sort((a, b) => a.at - b.at);
}

/** The answer to such a request, up to an index: {error}; null where none was delivered. */
function answerTo({ at, call, received }, index) {
  const some = getAnswerIndices();
  const from = countUpTo(some, indexOfPosition(at) ?? 0);
  const until = Math.min(countUpTo(some, index), from + ANSWERS_MAX);
  for (let n = from; n < until; n += 1) {
    const { k, d, p } = events[some[n]];
    if (call ? k === "client.result" && p.includes(at) : k === "msg.send" && d.response && p.includes(received.i)) {
      return { error: d.error && d.error !== "NONE" ? d.error : "" };
    }
  }
  return null;
}

/** What the application knows of a transaction at an index: {how, text}. how: open, committed, aborted, unknown. */
export function application(t, index) {
  const next = transactionsOf(t.id)[t.number];
  const began = events[t.index]?.i ?? 0;
  let last = null; // of those that came to no answer, or to an error
  for (const one of askedUntil(t.id, index)) {
    if (one.at <= began) continue;
    if (one.isAnew) {
      if (one.n < (next?.index ?? Infinity)) last = { anew: true };
      continue;
    }
    const answer = answerTo(one, index);
    if (answer && !answer.error) return one.what ? { how: one.what, text: `is ${one.what} ✓` } : { how: "unknown", text: "is ended ✓" };
    last = { ...one, error: answer?.error };
  }
  if (!last) return { how: "open", text: "is open" };
  if (last.anew) return { how: "unknown", text: "does not know: it has begun anew" };
  const asked = `it asked to ${ASKED[last.what] ?? "end it"}`;
  return { how: "unknown", text: `does not know: ${asked}, and ${last.error ? `got ${last.error}` : "has no answer"}` };
}
