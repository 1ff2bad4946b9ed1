// @ts-check
// The newest batches of a partition, from its events alone: what became of each, whose transaction it
// belongs to, and the values of its records where the trace has them.

import { upTo } from "./book.js";
import { idOf } from "./reducer.js";
import { begunOf, chainOf, events, indexOf, movesOf, writes } from "./store.js";

const CELLS = 60;

/** The newest cells of a partition up to an index, oldest first; and where the last stable offset is
 *  farther back, the cell that it stands in, with how many lie before and between. */
export function tape(tp, until, lso) {
  const indices = writes(tp);
  const cells = [];
  const ended = new Map(); // producer id -> how the marker that comes next ends what it has open
  let cut = Infinity; // what a truncation has taken away
  let far = null;
  let n = upTo(indices, until) - 1;
  let left = 0;
  for (; n >= 0; n -= 1) {
    const event = events[indices[n]];
    const { k, d, i, tx } = event;
    if (k === "log.truncate") {
      cut = Math.min(cut, d.to);
      continue;
    }
    const isMarker = k === "marker.written";
    const first = isMarker ? d.offset : d.base;
    const last = isMarker ? d.offset : d.last;
    if (last >= cut) continue;
    if (isMarker) ended.set(d.pid, d.committed ? "committed" : "aborted");
    const how = isMarker ? (d.committed ? "COMMIT" : "ABORT") : d.txn ? (ended.get(d.pid) ?? "open") : "plain";
    const cell = { i, first, last, pid: d.pid, epoch: d.epoch, txn: d.txn, tx, how, event };
    if (cells.length < CELLS) cells.push(cell);
    else {
      if (last < lso) break; // the cell of the last stable offset is among the newest, or was met
      left += 1;
      if (first <= lso) {
        far = { cell, between: left - 1 };
        break;
      }
    }
  }
  return { cells: cells.reverse(), far, earlier: Math.max(0, n) };
}

/** The transaction that a written batch or marker belongs to; null where the trace does not have it. A
 *  Produce that was late belongs to the transaction in which its broker received it, a late marker to the
 *  one that was decided. */
export function transactionOf(event) {
  const chain = chainOf(event);
  const tx = event.tx || chain.find((one) => one.tx)?.tx;
  if (!tx) return null;
  const isMarker = event.k === "marker.written";
  const theirs = begunOf(idOf(tx)).filter((one) => isMarker || one.name === tx);
  const cause = chain.find((one) => (isMarker ? one.k === "txn.complete" : one.k === "msg.recv" && one.d.api === "Produce"));
  const before = (one) => theirs.findLast(({ index }) => index <= indexOf(one.i));
  return (cause && before(cause)) ?? before(event) ?? null;
}

/** How a coordinator has ended a transaction up to an index: committed, aborted, null where it has not. */
export function outcomeOf(t, until) {
  const next = begunOf(t.id).find(({ index }) => index > t.index)?.index ?? Infinity;
  const ended = movesOf(t.id).find((n) => n > t.index && n <= until && n < next && events[n].d.state.startsWith("Complete"));
  if (ended === undefined) return null;
  return events[ended].d.state === "CompleteCommit" ? "committed" : "aborted";
}

/** Call of a client of ours -> what it sent. */
const callOf = (event) => chainOf(event).find((one) => one.k === "client.call" && one.d.args?.records);

/** The values of each cell's records, as far as the client's call says them: the records of a call are
 *  those of its batches, in order. */
export function valuesOf(cells) {
  const ofCall = new Map(); // position of a call -> its cells
  const values = new Map();
  for (const cell of cells) {
    const call = cell.how in { COMMIT: 1, ABORT: 1 } ? null : callOf(cell.event);
    if (call) ofCall.set(call.i, [...(ofCall.get(call.i) ?? []), { cell, call }]);
  }
  for (const some of ofCall.values()) {
    const { records } = some[0].call.d.args;
    const held = some.reduce((sum, { cell }) => sum + cell.last - cell.first + 1, 0);
    if (held !== records.length) continue;
    let from = 0;
    for (const { cell } of some) {
      const end = from + cell.last - cell.first + 1;
      values.set(cell.i, records.slice(from, end));
      from = end;
    }
  }
  return values;
}
