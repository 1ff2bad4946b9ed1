// @ts-check
// The tape of a partition: its newest batches, made from the events alone. Each with its transaction, what became
// of it, and the values of its records where the trace has them.

import { lowestNumberWhere, countUpTo } from "./book.js";
import { endAtElection, transactionalIdOf } from "./reducer.js";
import { getCurrentTrace, transactionsOf, logCutsOf, events, indexOfPosition, nearestAncestor, leaderWritesOf } from "./store.js";

const TAPE_CELLS_MAX = 60;

/** Partition -> the tape that was made last: within one drawing it is asked for several times. */
const lastTapeByPartition = new Map();

/** The tape of a partition up to an index: {cells, far, earlierCount, spans}. `cells` are the newest, oldest first; `far` is
 *  the cell of the last stable offset where it lies before them; `earlierCount` is how many cells come before all these. */
export function tapeOf(tp, untilIndex, { lso, start = 0 }) {
  const lastTape = lastTapeByPartition.get(tp);
  if (lastTape?.until === untilIndex && lastTape.lso === lso && lastTape.start === start && lastTape.trace === getCurrentTrace()) return lastTape.tape;
  const newTape = makeTape(tp, untilIndex, lso, start);
  lastTapeByPartition.set(tp, { until: untilIndex, lso, start, trace: getCurrentTrace(), tape: newTape });
  return newTape;
}

function makeTape(tp, untilIndex, lso, startOffset) {
  const writeIndices = leaderWritesOf(tp);
  const tapeCells = [];
  const outcomeByProducer = new Map(); // producer id -> how its next marker ends the transaction: committed, aborted
  const endByProducer = new Map(); // producer id -> the offset of that marker
  let cutOffset = Infinity; // offsets from here on are missing in the log of a later leader
  const cellOf = (eventIndex) => {
    const event = events[eventIndex];
    const { d, i, tx } = event;
    const isMarker = event.k === "marker.written";
    const { first, last } = offsetsOf(event);
    if (isMarker) {
      outcomeByProducer.set(d.pid, d.committed ? "committed" : "aborted");
      endByProducer.set(d.pid, d.offset);
    }
    const batchOutcome = isMarker ? (d.committed ? "COMMIT" : "ABORT") : d.txn ? (outcomeByProducer.get(d.pid) ?? "open") : "plain";
    return { i, n: eventIndex, first, last, pid: d.pid, epoch: d.epoch, txn: d.txn, tx, how: batchOutcome, endedAt: d.txn ? endByProducer.get(d.pid) : undefined, event, isMarker, t: transactionOf(event) };
  };
  let writeNumber = countUpTo(writeIndices, untilIndex) - 1;
  for (; writeNumber >= 0 && tapeCells.length < TAPE_CELLS_MAX; writeNumber -= 1) {
    const event = events[writeIndices[writeNumber]];
    if (event.k === "node.role") cutOffset = Math.min(cutOffset, endAtElection(event.d));
    if (event.k === "node.role" || offsetsOf(event).last >= cutOffset) continue;
    if (offsetsOf(event).last < startOffset) { // it is deleted, and all before it
      writeNumber = -1;
      break;
    }
    const cell = cellOf(writeIndices[writeNumber]);
    tapeCells.push(cell);
  }
  const lsoWrite = writeNumber >= 0 && tapeCells.at(-1).first > lso ? writeContaining(tp, writeNumber, lso, cutOffset) : null;
  // A marker between the distant cell and the others is not yet on all replicas: to readers, the transaction is still open.
  const distantLsoCell = lsoWrite && { cell: cellOf(writeIndices[lsoWrite.n]), between: lsoWrite.between };
  for (const [cell, values] of recordValuesOf(tapeCells.reverse())) cell.values = values;
  return { cells: tapeCells, far: distantLsoCell, earlierCount: lsoWrite?.n ?? writeNumber + 1, spans: transactionBrackets(tapeCells) };
}

/** A transaction as the page calls it: app/1, the first of the transactional id app. */
export const transactionLabel = (transaction) => `${transaction.id}/${transaction.number}`;

const offsetsOf = ({ d }) => ({ first: d.base ?? d.offset, last: d.last ?? d.offset });

/** The write that contains an offset, as {n, between}: its number among the writes of the partition, and how many
 *  writes lie between it and `newestNumber`. Null where it is not in the trace. Offsets grow from one cut to the next, so a
 *  binary search finds it, however far back it is. */
function writeContaining(tp, newestNumber, offset, cutOffset) {
  const writeIndices = leaderWritesOf(tp);
  const cutIndices = logCutsOf(tp);
  const firstWriteReaching = (low, high, bound) => lowestNumberWhere(low, high, (n) => offsetsOf(events[writeIndices[n]]).last >= bound);
  let writesBetween = 0;
  for (let highNumber = newestNumber + 1; highNumber > 0; ) {
    const indexOfCutBefore = cutIndices[countUpTo(cutIndices, writeIndices[highNumber - 1]) - 1];
    const lowNumber = indexOfCutBefore === undefined ? 0 : countUpTo(writeIndices, indexOfCutBefore);
    const endNumber = cutOffset === Infinity ? highNumber : firstWriteReaching(lowNumber, highNumber, cutOffset);
    const writeNumber = firstWriteReaching(lowNumber, endNumber, offset);
    if (writeNumber < endNumber && offsetsOf(events[writeIndices[writeNumber]]).first <= offset) return { n: writeNumber, between: writesBetween + endNumber - writeNumber - 1 };
    if (writeNumber > lowNumber || lowNumber === 0) return null;
    writesBetween += endNumber - lowNumber;
    cutOffset = Math.min(cutOffset, endAtElection(events[indexOfCutBefore].d));
    highNumber = lowNumber - 1;
  }
  return null;
}

/** For each cell, and for the log end after them, the open transactions there, one per row: {part, t, pid}. `part`
 *  tells whether the bracket begins here (from), goes on (in) or ends (to), as it does at the producer's marker. */
function transactionBrackets(cells) {
  const bracketRows = [];
  const bracketsByCell = cells.map((cell) => {
    const { pid, txn, isMarker } = cell;
    let rowIndex = bracketRows.findIndex((bracket) => bracket?.pid === pid);
    const isBeginning = txn && !isMarker && rowIndex < 0;
    if (isBeginning) {
      rowIndex = bracketRows.findIndex((bracket) => bracket === null);
      if (rowIndex < 0) rowIndex = bracketRows.length;
      bracketRows[rowIndex] = { pid, t: cell.t };
    }
    const cellBrackets = bracketRows.map((bracket, n) => bracket && { ...bracket, part: n !== rowIndex ? "in" : isMarker ? "to" : isBeginning ? `from` : "in" });
    if (isMarker && rowIndex >= 0) bracketRows[rowIndex] = null;
    return cellBrackets;
  });
  bracketsByCell.push(bracketRows.map((bracket) => bracket && { ...bracket, part: "in" }));
  return bracketsByCell;
}

/** The transaction that a batch or marker belongs to; null where the trace does not have it. A late Produce belongs
 *  to the transaction in which the broker received it, a late marker to the transaction that was decided. */
export function transactionOf(event) {
  const transactionText = event.tx || nearestAncestor(event, (ancestor) => ancestor.tx)?.tx;
  if (!transactionText) return null;
  const isMarker = event.k === "marker.written";
  const placingEvent = nearestAncestor(event, (ancestor) => (isMarker ? ancestor.k === "txn.complete" : ancestor.k === "msg.recv" && ancestor.d.api === "Produce"));
  const transactionBegunBefore = (ancestor) => transactionBegunAt(transactionalIdOf(transactionText), ancestor.i, ({ name }) => isMarker || name === transactionText);
  return (placingEvent && transactionBegunBefore(placingEvent)) ?? transactionBegunBefore(event);
}

/** The newest transaction of the transactional id of an event; null where the event has no id. */
export function newestTransactionAt({ tx, i }) {
  return tx ? transactionBegunAt(transactionalIdOf(tx), i) : null;
}

/** The last transaction of an id that had begun at a position and is meant; null for none. */
function transactionBegunAt(id, position, isMeant = () => true) {
  const untilIndex = indexOfPosition(position); // computed once: it searches the text
  return untilIndex === undefined ? null : transactionBegunUntil(id, untilIndex, isMeant);
}

/** The same for an index. It searches backwards: mostly it is one of the last. */
export function transactionBegunUntil(id, untilIndex, isMeant = () => true) {
  const idTransactions = transactionsOf(id);
  for (let transactionIndex = lowestNumberWhere(0, idTransactions.length, (m) => idTransactions[m].index > untilIndex) - 1; transactionIndex >= 0; transactionIndex -= 1) if (isMeant(idTransactions[transactionIndex])) return idTransactions[transactionIndex];
  return null;
}

/** The call of one of txnsim's clients that sent the records of an event. */
const clientCallOf = (event) => nearestAncestor(event, (ancestor) => ancestor.k === "client.call" && ancestor.d.args?.records);

/** Cell -> the values of its records, as far as calls of clients tell them: the records of a call are those of its
 *  batches, in order. */
function recordValuesOf(cells) {
  const cellsByClientCall = new Map(); // position of a call -> the call and its cells
  const valuesByCell = new Map();
  for (const cell of cells) {
    const clientCall = cell.how in { COMMIT: 1, ABORT: 1 } ? null : clientCallOf(cell.event);
    if (clientCall) cellsByClientCall.set(clientCall.i, [...(cellsByClientCall.get(clientCall.i) ?? []), { cell, call: clientCall }]);
  }
  for (const callCells of cellsByClientCall.values()) {
    const { records } = callCells[0].call.d.args;
    const recordCount = callCells.reduce((sum, { cell }) => sum + cell.last - cell.first + 1, 0);
    if (recordCount !== records.length) continue;
    let firstRecordIndex = 0;
    for (const { cell } of callCells) {
      const recordsEnd = firstRecordIndex + cell.last - cell.first + 1;
      valuesByCell.set(cell, records.slice(firstRecordIndex, recordsEnd));
      firstRecordIndex = recordsEnd;
    }
  }
  return valuesByCell;
}
