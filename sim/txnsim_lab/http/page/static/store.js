// @ts-check
// What the page has: the trace it has read, one time cursor for all views, and where the trace comes from.
// A view asks nothing of a broker: it shows the events, and what the server's reader says of them.

import { batch, computed, signal } from "@preact/signals";
import { Book, copy, eventsOf } from "./book.js";
import { isSite } from "./site.js";

/** What this tab remembers; a browser that keeps nothing, nothing. */
export function rememberInTab(name, value) {
  try {
    if (value !== undefined) sessionStorage.setItem(name, value);
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
}

let book = new Book();
/** The events of the trace that is shown, by index. No signal: `count` tells of growth. */
export const events = eventsOf(() => book);

export const count = signal(0);
/** Index of the event that is shown; null: the newest (live). */
export const cursor = signal(null);
/** Index of the event in the inspector; null: the one under the cursor. */
export const selected = signal(null);
/** A page in a file has its runs with it, and no server. */
export const source = signal({ kind: document.getElementById("runs") ? "file" : isSite ? "site" : "live" });
export const link = signal("connecting"); // connecting, reading, live, off, lost, refused, paused, done
/** How many events were read of a trace that is on its way. */
export const readCount = signal(0);
/** How many events the stream left out, because the page could not keep up. */
export const lostCount = signal(0);
/** Whether another cluster has taken the place of the one that was shown. */
export const isReplaced = signal(false);
export const view = signal("stage");
export const partition = signal(null);
export const transaction = signal(null);
export const query = signal("");
/** Whether only what hangs is wanted on the stage. */
export const hangsOnly = signal(false);
export const problem = signal("");
/** What was done last, for the one who did it. */
export const notice = signal("");
export const isHelpOpen = signal(false);
export const isShareOpen = signal(false);
/** What the server's reader has said last: {at, partitions, open, state, error, isNewest}, of the event at `at`. */
export const explanation = signal(null);
/** The header of the trace that is shown. */
export const info = signal({});
/** What a page in a file holds: {remark, runs}; null where a server answers. */
export const runFile = signal(null);
/** Where a run that is driven stands: {next, back, inputs, error}; null for everything else. */
export const drivenRun = signal(null);
/** The lesson that is played: its texts, the part, what was answered; null for none. */
export const lesson = signal(null);
/** The fact that a question of the lesson is about, while it is open: what would answer it is not shown. */
export const askedFact = computed(() => {
  const currentLesson = lesson.value;
  const part = currentLesson?.parts[currentLesson.part];
  return part?.ask && !currentLesson.shown ? (part.fact ?? "").split(" ")[0] || "answer" : null;
});
/** Whether a lesson is shown to a class: in large type, and answers on demand. */
export const isPresenting = signal(/[#&]present=1/.test(globalThis.location?.hash ?? ""));
/** Whether details are unfolded: fields of events, what is beside the point, commands. A tab remembers it. */
export const isDetailed = signal(rememberInTab("txnsim-details") === "open");
/** Whether the page stands in another one: picture and steps alone. */
export const isEmbedded = /[#&]embed=1/.test(globalThis.location?.hash ?? "");
/** Whether a run is on its way. */
export const busy = signal(false);
/** Whether the page takes no more events: it has as many as it can bear. */
export const isFull = signal(false);
/** Whether something can be done to what is shown: a live cluster, or a run that stands at a step. */
export const canAct = computed(() => source.value.kind === "live" || Boolean(drivenRun.value?.next));
/** What judges found: the violations of the trace. */
export const violations = signal([]);

/** The run beside the one that is shown, and where the two are compared; null for none. */
export const comparison = signal(null);

/** Ask as if another trace were shown: everything that is asked of it until this returns. */
export function withBook(otherBook, question) {
  const shownBook = book;
  book = otherBook;
  try {
    return question();
  } finally {
    book = shownBook;
  }
}
/** The trace that is shown, or asked. */
export const thisBook = () => book;

/** Show another trace. */
export function showBook(nextBook, origin) {
  batch(() => {
    book = nextBook;
    count.value = events.length;
    cursor.value = null;
    selected.value = null;
    explanation.value = null;
    partition.value = null;
    transaction.value = null;
    info.value = book.header;
    violations.value = [...book.violations];
    isFull.value = Boolean(book.isFull);
    lostCount.value = 0;
    if (origin.kind !== "run" || origin.id !== source.value.id) drivenRun.value = comparison.value = null;
    source.value = origin;
  });
}

/** However quickly events come, they are drawn so often at most; and behind each drawing is a rest, so many
 *  times as long as it took. So a page takes a part of a core, however slow it is to draw. */
const DRAW_INTERVAL_MS = 100, REST_FACTOR = 3;
/** No rest is longer: a page that was hidden meanwhile measures what it was not busy with. */
const REST_MAX_MS = 2000;
let drawing = 0, dueMs = 0;
/** What else changes with the next drawing. */
let nextChanges = [];

/** Take in more events, in order; what is there already is skipped. */
export function addEvents(arrivals) {
  arrivedCount += arrivals.length;
  if (!arrivals.every((event) => book.add(event))) isFull.value = true;
  scheduleDrawing();
}

/** Change something with the next drawing: what comes in by itself causes none of its own. */
export function withNext(change) {
  nextChanges.push(change);
  scheduleDrawing();
}

function scheduleDrawing() {
  if (!drawing) drawing = setTimeout(drawChanges, Math.max(0, dueMs - performance.now()));
}

function drawChanges() {
  drawing = 0;
  const beganMs = performance.now();
  if (beganMs < dueMs) return scheduleDrawing(); // what was drawn last took longer than was known then
  const changes = nextChanges;
  nextChanges = [];
  batch(() => {
    if (book.violations.length > violations.value.length) violations.value = [...book.violations];
    count.value = events.length;
    for (const change of changes) change();
  });
  // Components follow in a microtask, layout and paint with the next frame, if the page is seen at all.
  dueMs = beganMs + DRAW_INTERVAL_MS;
  queueMicrotask(() => {
    const renderedMs = performance.now();
    postponeDrawing(renderedMs - beganMs);
    requestAnimationFrame(() => {
      const paintMs = performance.now();
      setTimeout(() => postponeDrawing(renderedMs - beganMs + performance.now() - paintMs));
    });
  });
}

/** Draw no more for a while: a drawing took so long. */
function postponeDrawing(tookMs) {
  dueMs = Math.max(dueMs, performance.now() + Math.min(REST_MAX_MS, REST_FACTOR * tookMs));
}

/** Events that came in the last second. */
export const rate = signal(0);
/** Of those that came by themselves: what the server had kept was read, and is no rate. */
let arrivedCount = 0;
setInterval(() => {
  rate.value = source.value.kind === "live" ? arrivedCount : 0;
  arrivedCount = 0;
}, 1000);

export const indexOf = (position) => book.indexOf(position);
export const lastIndex = () => events.length - 1;
/** Indices of what a partition's leaders have written, and of new leaders that have less of it. */
export const writesOf = (tp) => book.writes.get(tp) ?? [];
/** Of those leaders. */
export const cutsOf = (tp) => book.cuts.get(tp) ?? [];
/** Indices of the completed moves of a transactional id. */
export const movesOf = (id) => book.moves.get(id) ?? [];
/** Indices of the story's own sentences; of what was held, and of what was released. */
export const storyNotes = () => book.notes;
export const holds = () => book.holds;
export const releases = () => book.releases;
/** Indices of what ends transactions of an id, by a client's wish; of answers and results. */
export const endingsOf = (id) => book.endings.get(id) ?? [];
export const answers = () => book.answers;
/** The transactions of a transactional id, in order. */
export const begunOf = (id) => book.transactions.get(id) ?? [];
export const stateAt = (index) => book.stateAt(index);

export const shownIndex = computed(() => {
  const newest = count.value - 1;
  return cursor.value === null ? newest : Math.min(cursor.value, newest);
});
/** The state under the cursor; a new object for each cursor, the same one for the newest. */
export const state = computed(() => ({ at: shownIndex.value, of: source.value, now: stateAt(shownIndex.value) }));
/** Of a cluster that goes on, the event that was judged last; else the one under the cursor. */
const momentAt = computed(() => {
  const newest = shownIndex.value;
  return (cursor.value === null && explanation.value?.isNewest ? indexOf(explanation.value.at) : undefined) ?? newest;
});
/** What is shown wherever something is judged: one event, the state behind it, and what the server's reader says
 *  of that very event. `said` is null while it is read, and where it is not to be had: `error` says why. */
export const moment = computed(() => {
  void source.value;
  const index = momentAt.value;
  const position = events[index]?.i;
  const clusterState = stateAt(index);
  const answer = explanation.value?.at === position ? explanation.value : null;
  const judgement = answer && !answer.error ? answer : null;
  // The state of the newest event grows with the next one, and what is shown does not.
  return { index, position, now: index >= lastIndex() ? copy(clusterState) : clusterState, said: judgement, error: answer?.error ?? "", open: judgement?.open ?? [] };
});
export const shownEvent = computed(() => events[selected.value ?? shownIndex.value]);

export function goTo(index) {
  const newest = events.length - 1;
  batch(() => {
    count.value = events.length; // it may be one that is not drawn yet
    cursor.value = Math.max(0, Math.min(index, newest));
    selected.value = null;
  });
}

export function goLive() {
  batch(() => {
    if (cursor.value !== null && explanation.value) explanation.value = { ...explanation.value, isNewest: false };
    cursor.value = null;
    selected.value = null;
  });
}

/** Choose a view: what lay over it is closed. */
export function chooseView(name) {
  batch(() => {
    view.value = name;
    isHelpOpen.value = false;
    isShareOpen.value = false;
  });
}

/** So far back causes are followed. Those of a cluster that goes on for days may have no end. */
const CAUSES_MAX = 200;

/** The main cause of an event; undefined for a root, or where it is not kept. */
function causeOf({ i, p }) {
  const index = p.length ? book.indexOf(p[0]) : undefined;
  const cause = index === undefined ? undefined : book.event(index);
  return cause && cause.i < i ? cause : undefined;
}

/** The nearest of an event and its main causes for which something holds. */
export function nearest(event, predicate) {
  for (let ancestor = event, n = 0; ancestor && n < CAUSES_MAX; ancestor = causeOf(ancestor), n += 1) if (predicate(ancestor)) return ancestor;
  return undefined;
}

/** An event and its main causes, back to the root, as far as they are followed. */
export function chainOf(event) {
  const chain = [];
  nearest(event, (cause) => void chain.push(cause));
  return chain;
}

/** The same with copies skipped, but for the root: as txnsim_lab.trace.explain walks. */
const COPIES = new Set(["msg.send", "msg.recv", "log.hw", "txn.decide", "txn.prepare"]);
export const causesOf = (event) => chainOf(event).filter((cause, n, chain) => n === 0 || n === chain.length - 1 || !COPIES.has(cause.k));

// For tests and for the console: what the page thinks.
globalThis.__sim = {
  events, stateAt, at: shownIndex, cursor, count, explained: explanation, go: goTo, link,
};
