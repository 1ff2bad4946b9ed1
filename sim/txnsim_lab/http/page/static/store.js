// @ts-check
// The page's state: the trace that was read, where it comes from, and one time cursor for all views. A view asks no
// broker: it shows the events, and the server's explanations of them.

import { batch, computed, signal } from "@preact/signals";
import { Book, copyState, eventsOf } from "./book.js";
import { isSite } from "./site.js";

/** Read, or first set, a value that this tab remembers; null where the browser stores nothing. */
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
/** The index of the event that is shown; null for the newest (live). */
export const cursor = signal(null);
/** The index of the event in the inspector; null for the one under the cursor. */
export const selected = signal(null);
/** Where the shown trace comes from. `kind`: live, run, file (a page with its runs in one file), site. */
export const source = signal({ kind: document.getElementById("runs") ? "file" : isSite ? "site" : "live" });
export const link = signal("connecting"); // connecting, reading, live, off, lost, refused, paused, done
/** How many events of a trace have been read, while it is read; else 0. */
export const readCount = signal(0);
/** How many events the stream has left out because the page could not keep up. */
export const lostCount = signal(0);
/** Whether another cluster answers now at the address of the one that was shown. */
export const isReplaced = signal(false);
export const view = signal("stage");
export const partition = signal(null);
export const transaction = signal(null);
export const query = signal("");
/** Whether the stage shows only what hangs. */
export const hangsOnly = signal(false);
export const problem = signal("");
/** The notice about the last action. */
export const notice = signal("");
export const isHelpOpen = signal(false);
export const isShareOpen = signal(false);
/** The server's last explanation: {at, partitions, open, state, error, isNewest}, of the event at position `at`. */
export const explanation = signal(null);
/** The header of the trace that is shown. */
export const info = signal({});
/** The list of runs of a page in a file: {remark, runs}; null where a server answers. */
export const runFile = signal(null);
/** Where a driven run stands: {next, back, inputs, error}; null if no run is driven. */
export const drivenRun = signal(null);
/** The lesson that is played: its texts, the part, the answers so far; null for none. */
export const lesson = signal(null);
/** The fact that an open question of the lesson asks about; null if none is open. Views hide what would answer it. */
export const askedFact = computed(() => {
  const currentLesson = lesson.value;
  const part = currentLesson?.parts[currentLesson.part];
  return part?.ask && !currentLesson.shown ? (part.fact ?? "").split(" ")[0] || "answer" : null;
});
/** Whether the page is presented to a class: in large type, with answers on demand. */
export const isPresenting = signal(/[#&]present=1/.test(globalThis.location?.hash ?? ""));
/** Whether details are unfolded: fields of events, commands, evidence. A tab remembers it. */
export const isDetailed = signal(rememberInTab("txnsim-details") === "open");
/** Whether the page is embedded in another one and shows the picture and the steps only. */
export const isEmbedded = /[#&]embed=1/.test(globalThis.location?.hash ?? "");
/** Whether a command to a driven run is under way. */
export const busy = signal(false);
/** Whether the page holds as many events as it can, and takes no more. */
export const isFull = signal(false);
/** Whether actions are possible: on a live cluster, or in a run that waits at a step. */
export const canAct = computed(() => source.value.kind === "live" || Boolean(drivenRun.value?.next));
/** The violations of the trace, as the judges found them. */
export const violations = signal([]);

/** The run beside the shown one, and the rows in which the two are compared; null for none. */
export const comparison = signal(null);

/** Call a function while another trace is the current one: the functions of this module then ask that trace. */
export function withBook(otherBook, question) {
  const shownBook = book;
  book = otherBook;
  try {
    return question();
  } finally {
    book = shownBook;
  }
}
/** The current trace: the one that is shown, or that of `withBook`. */
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

/** Events are drawn at most once per DRAW_INTERVAL_MS, and after each drawing there is a rest, REST_FACTOR times as
 *  long as the drawing took. So the page takes a part of a core only, however slowly it draws. */
const DRAW_INTERVAL_MS = 100, REST_FACTOR = 3;
/** No rest is longer: a page that was hidden meanwhile measures too long a drawing. */
const REST_MAX_MS = 2000;
let drawing = 0, dueMs = 0;
/** Functions to call with the next drawing. */
let nextChanges = [];

/** Add arrived events, in order; those that are already there are skipped. */
export function addEvents(arrivals) {
  arrivedCount += arrivals.length;
  if (!arrivals.every((event) => book.add(event))) isFull.value = true;
  scheduleDrawing();
}

/** Make a change with the next drawing, so that it causes no drawing of its own. */
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
  if (beganMs < dueMs) return scheduleDrawing(); // the last drawing took longer than was known when this was scheduled
  const changes = nextChanges;
  nextChanges = [];
  batch(() => {
    if (book.violations.length > violations.value.length) violations.value = [...book.violations];
    count.value = events.length;
    for (const change of changes) change();
  });
  // Components render in a microtask; layout and paint follow in the next frame, if the page is visible at all.
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

/** Delay the next drawing according to how long one took. */
function postponeDrawing(tookMs) {
  dueMs = Math.max(dueMs, performance.now() + Math.min(REST_MAX_MS, REST_FACTOR * tookMs));
}

/** Events that arrived in the last second. */
export const rate = signal(0);
/** Events that have arrived in the current second. Events that the server had kept are read at once, and don't count. */
let arrivedCount = 0;
setInterval(() => {
  rate.value = source.value.kind === "live" ? arrivedCount : 0;
  arrivedCount = 0;
}, 1000);

export const indexOf = (position) => book.indexOf(position);
export const lastIndex = () => events.length - 1;
/** Indices of the writes of a partition's leaders, and of elections whose leader has a shorter log. */
export const writesOf = (tp) => book.writes.get(tp) ?? [];
/** Indices of the elections whose leader has a shorter log. */
export const cutsOf = (tp) => book.cuts.get(tp) ?? [];
/** Indices of the completed changes of state of a transactional id. */
export const movesOf = (id) => book.moves.get(id) ?? [];
/** Indices of the story's own sentences, of held messages, of releases. */
export const storyNotes = () => book.notes;
export const holds = () => book.holds;
export const releases = () => book.releases;
/** Indices of requests of clients that end transactions of an id; of answers and results. */
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
/** The index of `moment`: on a live cluster the event that was explained last, else the event under the cursor. */
const momentAt = computed(() => {
  const newest = shownIndex.value;
  return (cursor.value === null && explanation.value?.isNewest ? indexOf(explanation.value.at) : undefined) ?? newest;
});
/** What all views that judge show: one event, the state after it, and the server's explanation of that very event.
 *  `said`, the explanation, is null until it has arrived, and where there is none: `error` tells why. */
export const moment = computed(() => {
  void source.value;
  const index = momentAt.value;
  const position = events[index]?.i;
  const clusterState = stateAt(index);
  const answer = explanation.value?.at === position ? explanation.value : null;
  const judgement = answer && !answer.error ? answer : null;
  // The book changes its newest state with the next event; what is shown must not change.
  return { index, position, now: index >= lastIndex() ? copyState(clusterState) : clusterState, said: judgement, error: answer?.error ?? "", open: judgement?.open ?? [] };
});
export const shownEvent = computed(() => events[selected.value ?? shownIndex.value]);

export function goTo(index) {
  const newest = events.length - 1;
  batch(() => {
    count.value = events.length; // the event may not be drawn yet
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

/** Choose a view, and close the help or Share. */
export function chooseView(name) {
  batch(() => {
    view.value = name;
    isHelpOpen.value = false;
    isShareOpen.value = false;
  });
}

/** At most so many causes are followed: on a cluster that has run for days the chain may be endless. */
const CAUSES_MAX = 200;

/** The main cause of an event; undefined for a root, or where it is not kept. */
function causeOf({ i, p }) {
  const index = p.length ? book.indexOf(p[0]) : undefined;
  const cause = index === undefined ? undefined : book.event(index);
  return cause && cause.i < i ? cause : undefined;
}

/** The first of an event and its main causes for which the predicate holds; undefined for none. */
export function nearest(event, predicate) {
  for (let ancestor = event, n = 0; ancestor && n < CAUSES_MAX; ancestor = causeOf(ancestor), n += 1) if (predicate(ancestor)) return ancestor;
  return undefined;
}

/** An event and its main causes, back to the root, at most CAUSES_MAX. */
export function chainOf(event) {
  const chain = [];
  nearest(event, (cause) => void chain.push(cause));
  return chain;
}

/** Kinds that only repeat their cause: `causesOf` skips them, except at the root, as txnsim_lab.trace.explain does. */
const COPIES = new Set(["msg.send", "msg.recv", "log.hw", "txn.decide", "txn.prepare"]);
export const causesOf = (event) => chainOf(event).filter((cause, n, chain) => n === 0 || n === chain.length - 1 || !COPIES.has(cause.k));

// For tests and for the console.
globalThis.__sim = {
  events, stateAt, at: shownIndex, cursor, count, explained: explanation, go: goTo, link,
};
