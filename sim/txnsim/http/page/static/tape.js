// @ts-check
// The newest batches of a partition, from its events alone: what became of each, whose transaction it
// belongs to, and the values of its records where the trace has them.

import { upTo } from "./book.js";
import { idOf } from "./reducer.js";
import { asked, begunOf, chainOf, events, indexOf, movesOf, writes } from "./store.js";

const CELLS = 60;

/** Partition -> its tape as it was made last: what asks for it in one drawing asks for the same. */
const made = new Map();

/** The newest cells of a partition up to an index, oldest first; and where the last stable offset is
 *  farther back, the cell that it stands in, with how many lie before and between. */
export function tape(tp, until, lso) {
  const known = made.get(tp);
  if (known?.until === until && known.lso === lso && known.of === asked()) return known.found;
  const found = cellsOf(tp, until, lso);
  made.set(tp, { until, lso, of: asked(), found });
  return found;
}

function cellsOf(tp, until, lso) {
  const indices = writes(tp);
  const cells = [];
  const ended = new Map(); // producer id -> how the marker that comes next ends what it has open
  const next = new Map(); // producer id -> the cell of that marker, where nothing of the producer lies between
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
    const cell = { i, first, last, pid: d.pid, epoch: d.epoch, txn: d.txn, tx, how, event, isMarker, t: transactionOf(event) };
    const later = next.get(d.pid);
    if (isMarker && later?.how === how && later.epoch === d.epoch) later.again = againWhy(event, later.event);
    if (isMarker) next.set(d.pid, cell);
    else next.delete(d.pid);
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
  for (const [cell, values] of valuesOf(cells.reverse())) cell.values = values;
  return { cells, far, earlier: Math.max(0, n), spans: brackets(cells) };
}

/** Why a marker is written once more. */
const againWhy = (before, after) => (after.d.coordinator_epoch > before.d.coordinator_epoch
  ? "its coordinator was loaded anew, and did not know that it is written"
  : "its coordinator had no answer to the one before");

/** For each cell, and for the log end behind them, the transactions that are open there: `row` by `row`
 *  {part, t, pid}, where the part is from, in or to. A marker ends what its producer has open. */
function brackets(cells) {
  const rows = [];
  const found = cells.map((cell) => {
    const { pid, txn, isMarker } = cell;
    let row = rows.findIndex((one) => one?.pid === pid);
    const begins = txn && !isMarker && row < 0;
    if (begins) {
      row = rows.findIndex((one) => one === null);
      if (row < 0) row = rows.length;
      rows[row] = { pid, t: cell.t };
    }
    const here = rows.map((one, n) => one && { ...one, part: n !== row ? "in" : isMarker ? "to" : begins ? `from` : "in" });
    if (isMarker && row >= 0) rows[row] = null;
    return here;
  });
  found.push(rows.map((one) => one && { ...one, part: "in" }));
  return found;
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
  const before = (one) => begunAt(theirs, one.i);
  return (cause && before(cause)) ?? before(event) ?? null;
}

/** The transaction of an event that a coordinator or a client tells; null where it has none. */
export function transactionAt({ tx, i }) {
  if (!tx) return null;
  return begunAt(begunOf(idOf(tx)), i) ?? null;
}

/** The last of some transactions that had begun at a position. */
function begunAt(some, position) {
  const until = indexOf(position); // once: where it lies is looked up in the text
  return some.findLast(({ index }) => index <= until);
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
function valuesOf(cells) {
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
      values.set(cell, records.slice(from, end));
      from = end;
    }
  }
  return values;
}
