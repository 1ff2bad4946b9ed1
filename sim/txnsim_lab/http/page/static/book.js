// @ts-check
// A trace as the page keeps it: its events in order, indices of some kinds of events, and the state after each.

import { LineReader, lineEndOf, decodeText } from "./lines.js";
import { changesState, endAtElection, applyEvent, transactionalIdOf, leaderLogOf, newState } from "./reducer.js";

/** A state is kept every so many events; in a long trace every 2, 4, … times as many. */
const CHECKPOINT_STEP = 2000;
const CHECKPOINTS_MAX = 512;
export const EVENTS_MAX = 1_500_000;
/** In a trace of at most so many events, parsed events are kept; of a longer one only the text is. */
const CACHED_EVENTS_MAX = 50_000;
const VIOLATION_KIND = "check.violation";
/** The node whose notes are the story's own sentences (`trace.story.NARRATOR`). */
const NARRATOR_NODE = "scenario";
const WRITE_KINDS = new Set(["log.append", "marker.written"]);
const needsPayload = (kind) => changesState(kind) || kind === VIOLATION_KIND;

/** A deep copy of a state, which holds plain objects, tables and arrays. */
export function copyState(value) {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(copyState);
  const prototype = Object.getPrototypeOf(value);
  const copiedObject = prototype === Object.prototype ? {} : Object.create(prototype);
  for (const fieldName in value) copiedObject[fieldName] = copyState(value[fieldName]);
  return copiedObject;
}

const pushIndex = (indicesByKey, key, index) => {
  const keyIndices = indicesByKey.get(key);
  if (keyIndices) keyIndices.push(index);
  else indicesByKey.set(key, [index]);
};

/** The events of a trace as an array. `getTrace` is called at each access, and each event is parsed on access. */
export const eventsOf = (getTrace) => new Proxy([], {
  get(array, property) {
    if (property === "length") return getTrace().length;
    const eventIndex = typeof property === "string" ? Number(property) : NaN;
    return Number.isNaN(eventIndex) ? array[property] : getTrace().event(eventIndex);
  },
  has: (array, property) => typeof property === "string" && Number(property) >= 0 && Number(property) < getTrace().length,
});

export class Trace {
  constructor(header = {}, bytes = new Uint8Array(0)) {
    this.header = header;
    /** The trace as it arrived, and where the line of each event begins in it. Events of a stream are kept as objects. */
    this.bytes = bytes;
    this.lineStarts = new Uint32Array(1024);
    this.lineCount = 0;
    this.streamedEvents = [];
    this.cachedEvents = []; // parsed events of a short trace
    this.oldestPosition = this.newestPosition = -1; // positions of the first event and of the last
    this.isFull = false;
    /** Partition -> indices of the writes of its leaders, and of elections whose leader has a shorter log. */
    this.writeIndicesByPartition = new Map();
    /** Partition -> indices of the elections whose leader has a shorter log. */
    this.cutIndicesByPartition = new Map();
    /** Transactional id -> indices of its completed changes of state. */
    this.moveIndicesById = new Map();
    this.violations = [];
    /** Indices of the story's own sentences. */
    this.noteIndices = [];
    /** Transactional id -> its transactions, in order. */
    this.transactionsById = new Map();
    this.transactionCount = 0;
    /** Indices of messages that were held, and of releases. */
    this.holdIndices = [];
    this.releaseIndices = [];
    this.newestState = newState(header.level ?? "full");
    this.checkpointStep = CHECKPOINT_STEP;
    this.checkpoints = []; // the state before events[n * checkpointStep]
  }

  get length() {
    return this.lineCount + this.streamedEvents.length;
  }

  /** The event at an index, undefined where there is none. `i` is its position in the trace, `node` a name. */
  event(index) {
    if (index >= this.lineCount) return this.streamedEvents[index - this.lineCount];
    if (!(index >= 0)) return undefined;
    const cachedEvent = this.cachedEvents[index];
    if (cachedEvent) return cachedEvent;
    const lineStart = this.lineStarts[index];
    const event = this.parseEvent(lineStart, lineEndOf(this.bytes, lineStart));
    if (this.lineCount <= CACHED_EVENTS_MAX) this.cachedEvents[index] = event;
    return event;
  }

  /** Parse the event of a line; readers of it expect `node` and `p`. */
  parseEvent(lineStart, lineEnd) {
    const event = JSON.parse(decodeText(this.bytes, lineStart, lineEnd));
    event.node = this.header.nodes[event.n];
    event.p ??= [];
    return event;
  }

  /** Read the line that begins at a byte; returns where the next one begins. Sets `isFull` when the trace holds EVENTS_MAX events. */
  readLine(lineReader, lineStart) {
    const partialEvent = lineReader.glance(lineStart);
    const lineEnd = partialEvent ? lineReader.lineEnd : lineEndOf(this.bytes, lineStart);
    if (lineEnd === lineStart) return lineEnd + 1;
    if (partialEvent) partialEvent.node = this.header.nodes[partialEvent.n];
    const event = partialEvent && partialEvent.k !== VIOLATION_KIND ? partialEvent : this.parseEvent(lineStart, lineEnd); // violations are kept, a glimpse is reused
    if (event.i === undefined || event.i <= this.newestPosition) return lineEnd + 1; // the trailer has no position
    if (this.length >= EVENTS_MAX) this.isFull = true;
    else {
      this.indexEvent(event);
      this.addLineStart(lineStart);
    }
    return lineEnd + 1;
  }

  /** Note where the line of the next event begins. */
  addLineStart(from) {
    if (this.lineCount === this.lineStarts.length) {
      const longerLineStarts = new Uint32Array(2 * this.lineCount);
      longerLineStarts.set(this.lineStarts);
      this.lineStarts = longerLineStarts;
    }
    this.lineStarts[this.lineCount] = from;
    this.lineCount += 1;
  }

  /** Append an event of the stream; one that is already there is skipped. False if the trace holds EVENTS_MAX events. */
  add(event) {
    if (event.i <= this.newestPosition) return true;
    if (this.length >= EVENTS_MAX) return false;
    this.indexEvent(event);
    this.streamedEvents.push(event);
    return true;
  }

  /** Add the next event to the indices and to the newest state. */
  indexEvent(event) {
    const eventIndex = this.length;
    if (!eventIndex) this.oldestPosition = event.i;
    if (eventIndex % this.checkpointStep === 0) this.keepCheckpoint();
    if (WRITE_KINDS.has(event.k)) {
      if (leaderLogOf(this.newestState, event.node, event.d)) pushIndex(this.writeIndicesByPartition, event.d.tp, eventIndex);
    } else if (event.k === "node.role") {
      // Truncation by a follower does not count: what it cuts off its own log, its leader never had.
      if (event.d.role === "leader" && endAtElection(event.d) < (this.newestState.logs[event.d.tp]?.end ?? (this.writeIndicesByPartition.has(event.d.tp) ? Infinity : 0)) /* a topic that is made again begins anew */) {
        pushIndex(this.writeIndicesByPartition, event.d.tp, eventIndex);
        pushIndex(this.cutIndicesByPartition, event.d.tp, eventIndex);
      }
    } else if (event.k === "txn.complete") {
      const transactionalId = transactionalIdOf(event.tx);
      pushIndex(this.moveIndicesById, transactionalId, eventIndex);
      if (event.d.state === "Ongoing" && this.newestState.transactions[transactionalId]?.state !== "Ongoing") this.addTransaction(transactionalId, event.tx, eventIndex);
    } else if (event.k === "snapshot") {
      for (const { tx, d } of event.d.transactions) if (d.state === "Ongoing" || d.state.startsWith("Prepare")) this.addTransaction(transactionalIdOf(tx), tx, eventIndex);
    } else if (event.k === VIOLATION_KIND) this.violations.push(event);
    else if (event.k === "note") {
      if (event.node === NARRATOR_NODE) this.noteIndices.push(eventIndex);
    } else if (event.k === "msg.hold") this.holdIndices.push(eventIndex);
    else if (event.k === "fault.release") this.releaseIndices.push(eventIndex);
    this.newestPosition = event.i;
    applyEvent(this.newestState, event);
  }

  /** Add the next transaction of a transactional id: `number` counts those of the id, `hue` all of the trace. */
  addTransaction(id, name, index) {
    const earlierTransactionCount = this.transactionsById.get(id)?.length ?? 0;
    pushIndex(this.transactionsById, id, { id, name, index, number: earlierTransactionCount + 1, hue: this.transactionCount });
    this.transactionCount += 1;
  }

  /** Keep a copy of the newest state; when there are too many, drop every second one. */
  keepCheckpoint() {
    this.checkpoints.push(copyState(this.newestState));
    if (this.checkpoints.length <= CHECKPOINTS_MAX) return;
    this.checkpoints = this.checkpoints.filter((_, n) => n % 2 === 0);
    this.checkpointStep *= 2;
  }

  /** The state after the event at an index: the nearest checkpoint before it, with the events since applied. */
  stateAt(index) {
    if (index < 0) return newState(this.header.level ?? "full");
    if (index >= this.length - 1) return this.newestState;
    const checkpointIndex = Math.floor(index / this.checkpointStep);
    const clusterState = copyState(this.checkpoints[checkpointIndex]);
    for (let eventIndex = checkpointIndex * this.checkpointStep; eventIndex <= index; eventIndex += 1) applyEvent(clusterState, this.event(eventIndex));
    return clusterState;
  }

  /** The index of the event at a position of the trace; undefined where it is not kept. */
  indexOf(position) {
    if (!this.length) return undefined;
    const guessedIndex = position - this.oldestPosition; // right if no event is missing
    if (this.event(guessedIndex)?.i === position) return guessedIndex;
    let lowIndex = 0, highIndex = this.length - 1;
    while (lowIndex <= highIndex) {
      const midIndex = (lowIndex + highIndex) >> 1;
      const { i } = this.event(midIndex);
      if (i === position) return midIndex;
      if (i < position) lowIndex = midIndex + 1;
      else highIndex = midIndex - 1;
    }
    return undefined;
  }
}

/** How many of the sorted numbers are at most `bound`. */
export const countUpTo = (sortedNumbers, bound) => lowestNumberWhere(0, sortedNumbers.length, (index) => sortedNumbers[index] > bound);

/** Binary search: the lowest number from `low` on, below `high`, for which the predicate holds (it then holds for
 *  all higher ones); `high` where it holds for none. */
export function lowestNumberWhere(low, high, predicate) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (predicate(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** A longer task is noticed by the user; on a busy machine a turn takes longer than this. */
const READ_TURN_MS = 60;
/** Let the browser do its own work. Where it has scheduler.yield, we go on right after it. */
export const yieldToBrowser = () => globalThis.scheduler?.yield?.() ?? new Promise((resolve) => setTimeout(resolve));

/** Read a trace: header, events, trailer as JSON lines. The page stays usable meanwhile: `reportProgress` gets the
 *  number of events so far, and ends the reading (null) by returning false. The answer is read in one piece: read in
 *  chunks, a long one took half as long again. */
export async function readTrace(response, reportProgress = () => true) {
  const traceBytes = new Uint8Array(await response.arrayBuffer());
  if (!traceBytes.length) return new Trace();
  let lineStart = lineEndOf(traceBytes, 0);
  const trace = new Trace(JSON.parse(decodeText(traceBytes, 0, lineStart)), traceBytes);
  const lineReader = new LineReader(traceBytes, needsPayload);
  let turnStartMs = performance.now();
  lineStart += 1;
  for (let lineNumber = 1; lineStart < traceBytes.length && !trace.isFull; lineNumber += 1) {
    lineStart = trace.readLine(lineReader, lineStart);
    if (lineNumber % 128 === 0 && performance.now() - turnStartMs > READ_TURN_MS) {
      if (!reportProgress(trace.length)) return null;
      await yieldToBrowser();
      turnStartMs = performance.now();
    }
  }
  return trace;
}
