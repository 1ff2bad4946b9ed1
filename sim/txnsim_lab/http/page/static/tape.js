// @ts-check
// The tape of a partition: its newest batches, made from the events alone. Each with its transaction, what became
// of it, and the values of its records where the trace has them.

import { lowestWhere, upTo } from "./book.js";
import { endOfLed, idOf } from "./reducer.js";
import { thisBook, begunOf, cutsOf, events, indexOf, movesOf, nearest, writesOf } from "./store.js";

const CELLS_MAX = 60;

/** Partition -> the tape that was made last: within one drawing it is asked for several times. */
const tapes = new Map();

/** The tape of a partition up to an index: {cells, far, earlier, spans}. `cells` are the newest, oldest first; `far` is
 *  the cell of the last stable offset where it lies before them; `earlier` is how many cells come before all these. */
export function tape(tp, until, lso) {
  const lastTape = tapes.get(tp);
  if (lastTape?.until === until && lastTape.lso === lso && lastTape.book === thisBook()) return lastTape.tape;
  const madeTape = cellsOf(tp, until, lso);
  tapes.set(tp, { until, lso, book: thisBook(), tape: madeTape });
  return madeTape;
}

function cellsOf(tp, until, lso) {
  const indices = writesOf(tp);
  const cells = [];
  const endings = new Map(); // producer id -> how its next marker ends the transaction: committed, aborted
  const laterMarkers = new Map(); // producer id -> the cell of its next marker, if no batch of the producer lies between
  let cutOffset = Infinity; // offsets from here on are missing in the log of a later leader
  const cellOf = (eventIndex) => {
    const event = events[eventIndex];
    const { d, i, tx } = event;
    const isMarker = event.k === "marker.written";
    const { first, last } = offsetsOf(event);
    if (isMarker) endings.set(d.pid, d.committed ? "committed" : "aborted");
    const how = isMarker ? (d.committed ? "COMMIT" : "ABORT") : d.txn ? (endings.get(d.pid) ?? "open") : "plain";
    return { i, n: eventIndex, first, last, pid: d.pid, epoch: d.epoch, txn: d.txn, tx, how, event, isMarker, t: transactionOf(event) };
  };
  let n = upTo(indices, until) - 1;
  for (; n >= 0 && cells.length < CELLS_MAX; n -= 1) {
    const event = events[indices[n]];
    if (event.k === "node.role") cutOffset = Math.min(cutOffset, endOfLed(event.d));
    if (event.k === "node.role" || offsetsOf(event).last >= cutOffset) continue;
    const cell = cellOf(indices[n]);
    const laterMarker = laterMarkers.get(cell.pid);
    if (cell.isMarker && laterMarker?.how === cell.how && laterMarker.epoch === cell.epoch) laterMarker.repeatReason = repeatReason(event, laterMarker.event);
    if (cell.isMarker) laterMarkers.set(cell.pid, cell);
    else laterMarkers.delete(cell.pid);
    cells.push(cell);
  }
  const lsoWrite = n >= 0 && cells.at(-1).first > lso ? writeHolding(tp, n, lso, cutOffset) : null;
  // A marker between `far` and the cells is not yet on all replicas: to readers, the transaction is still open.
  const far = lsoWrite && { cell: cellOf(indices[lsoWrite.n]), between: lsoWrite.between };
  for (const [cell, values] of valuesOf(cells.reverse())) cell.values = values;
  return { cells, far, earlier: lsoWrite?.n ?? n + 1, spans: brackets(cells) };
}

/** A transaction as the page calls it: app/1, the first of the transactional id app. */
export const nameOf = (transaction) => `${transaction.id}/${transaction.number}`;

/** The transaction of the open batch that contains an offset; null where the tape does not tell. */
export function openAt(tp, index, lso, offset) {
  const { cells, far } = tape(tp, index, lso);
  const isOpenThere = ({ first, last, how }) => first <= offset && offset <= last && how === "open";
  return ((far && isOpenThere(far.cell) ? far.cell : null) ?? cells.find(isOpenThere))?.t ?? null;
}

const offsetsOf = ({ d }) => ({ first: d.base ?? d.offset, last: d.last ?? d.offset });

/** The write that contains an offset, as {n, between}: its number among the writes of the partition, and how many
 *  writes lie between it and `newest`. Null where it is not in the trace. Offsets grow from one cut to the next, so a
 *  binary search finds it, however far back it is. */
function writeHolding(tp, newest, offset, cut) {
  const indices = writesOf(tp);
  const cuts = cutsOf(tp);
  const firstWriteFrom = (low, high, bound) => lowestWhere(low, high, (n) => offsetsOf(events[indices[n]]).last >= bound);
  let between = 0;
  for (let high = newest + 1; high > 0; ) {
    const cutBefore = cuts[upTo(cuts, indices[high - 1]) - 1];
    const low = cutBefore === undefined ? 0 : upTo(indices, cutBefore);
    const end = cut === Infinity ? high : firstWriteFrom(low, high, cut);
    const n = firstWriteFrom(low, end, offset);
    if (n < end && offsetsOf(events[indices[n]]).first <= offset) return { n, between: between + end - n - 1 };
    if (n > low || low === 0) return null;
    between += end - low;
    cut = Math.min(cut, endOfLed(events[cutBefore].d));
    high = low - 1;
  }
  return null;
}

/** Why a marker was written a second time. */
const repeatReason = (earlierMarker, laterMarker) => (laterMarker.d.coordinator_epoch > earlierMarker.d.coordinator_epoch
  ? "its coordinator was loaded anew, and did not know that it is written"
  : "its coordinator had no answer to the one before");

/** For each cell, and for the log end after them, the open transactions there, one per row: {part, t, pid}. `part`
 *  tells whether the bracket begins here (from), goes on (in) or ends (to), as it does at the producer's marker. */
function brackets(cells) {
  const rows = [];
  const bracketsByCell = cells.map((cell) => {
    const { pid, txn, isMarker } = cell;
    let row = rows.findIndex((bracket) => bracket?.pid === pid);
    const begins = txn && !isMarker && row < 0;
    if (begins) {
      row = rows.findIndex((bracket) => bracket === null);
      if (row < 0) row = rows.length;
      rows[row] = { pid, t: cell.t };
    }
    const cellBrackets = rows.map((bracket, n) => bracket && { ...bracket, part: n !== row ? "in" : isMarker ? "to" : begins ? `from` : "in" });
    if (isMarker && row >= 0) rows[row] = null;
    return cellBrackets;
  });
  bracketsByCell.push(rows.map((bracket) => bracket && { ...bracket, part: "in" }));
  return bracketsByCell;
}

/** The transaction that a batch or marker belongs to; null where the trace does not have it. A late Produce belongs
 *  to the transaction in which the broker received it, a late marker to the transaction that was decided. */
export function transactionOf(event) {
  const tx = event.tx || nearest(event, (ancestor) => ancestor.tx)?.tx;
  if (!tx) return null;
  const isMarker = event.k === "marker.written";
  const cause = nearest(event, (ancestor) => (isMarker ? ancestor.k === "txn.complete" : ancestor.k === "msg.recv" && ancestor.d.api === "Produce"));
  const transactionBefore = (ancestor) => begunAt(idOf(tx), ancestor.i, ({ name }) => isMarker || name === tx);
  return (cause && transactionBefore(cause)) ?? transactionBefore(event);
}

/** The newest transaction of the transactional id of an event; null where the event has no id. */
export function transactionAt({ tx, i }) {
  return tx ? begunAt(idOf(tx), i) : null;
}

/** The last transaction of an id that had begun at a position and is meant; null for none. */
function begunAt(id, position, isMeant = () => true) {
  const until = indexOf(position); // computed once: it searches the text
  return until === undefined ? null : begunUntil(id, until, isMeant);
}

/** The same for an index. It searches backwards: mostly it is one of the last. */
export function begunUntil(id, until, isMeant = () => true) {
  const transactions = begunOf(id);
  for (let n = lowestWhere(0, transactions.length, (m) => transactions[m].index > until) - 1; n >= 0; n -= 1) if (isMeant(transactions[n])) return transactions[n];
  return null;
}

/** How the coordinator had ended a transaction at an index: committed, aborted, or null if it had not. */
export function outcomeOf(t, until) {
  const next = begunOf(t.id)[t.number]?.index ?? Infinity;
  const moves = movesOf(t.id);
  for (let n = upTo(moves, t.index); n < moves.length && moves[n] <= until && moves[n] < next; n += 1) {
    const { state } = events[moves[n]].d;
    if (state.startsWith("Complete")) return state === "CompleteCommit" ? "committed" : "aborted";
  }
  return null;
}

/** The call of one of txnsim's clients that sent the records of an event. */
const callOf = (event) => nearest(event, (ancestor) => ancestor.k === "client.call" && ancestor.d.args?.records);

/** Cell -> the values of its records, as far as calls of clients tell them: the records of a call are those of its
 *  batches, in order. */
function valuesOf(cells) {
  const cellsByCall = new Map(); // position of a call -> the call and its cells
  const values = new Map();
  for (const cell of cells) {
    const call = cell.how in { COMMIT: 1, ABORT: 1 } ? null : callOf(cell.event);
    if (call) cellsByCall.set(call.i, [...(cellsByCall.get(call.i) ?? []), { cell, call }]);
  }
  for (const parts of cellsByCall.values()) {
    const { records } = parts[0].call.d.args;
    const recordCount = parts.reduce((sum, { cell }) => sum + cell.last - cell.first + 1, 0);
    if (recordCount !== records.length) continue;
    let from = 0;
    for (const { cell } of parts) {
      const end = from + cell.last - cell.first + 1;
      values.set(cell, records.slice(from, end));
      from = end;
    }
  }
  return values;
}
