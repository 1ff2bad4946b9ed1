// @ts-check
// The page's state: the trace that was read, where it comes from, and one time cursor for all views. A view asks no
// broker: it shows the events, and the server's explanations of them.

import { batch, computed, signal } from "@preact/signals";
import { Trace, copyState, eventsOf } from "./book.js";
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

let currentTrace = new Trace();
/** The events of the trace that is shown, by index. No signal: `eventCount` tells of growth. */
export const events = eventsOf(() => currentTrace);

export const eventCount = signal(0);
/** The index of the event that is shown; null for the newest (live). */
export const cursorIndex = signal(null);
/** The index of the event in the inspector; null for the one under the cursor. */
export const inspectedIndex = signal(null);
/** Where the shown trace comes from. `kind`: live, run, file (a page with its runs in one file), site. */
export const traceOrigin = signal({ kind: document.getElementById("runs") ? "file" : isSite ? "site" : "live" });
export const connectionState = signal("connecting"); // connecting, reading, live, off, lost, refused, paused, done
/** How many events of a trace have been read, while it is read; else 0. */
export const readEventCount = signal(0);
/** How many events the stream has left out because the page could not keep up. */
export const lostEventCount = signal(0);
/** Whether another cluster answers now at the address of the one that was shown. */
export const isClusterReplaced = signal(false);
export const shownView = signal("stage");
export const chosenPartition = signal(null);
export const chosenTransactionalId = signal(null);
export const searchQuery = signal("");
/** Whether the stage shows only what hangs. */
export const showsHangingOnly = signal(false);
export const problemText = signal("");
/** The notice about the last action. */
export const noticeText = signal("");
export const isHelpOpen = signal(false);
export const isShareOpen = signal(false);
/** The server's last explanation: {at, partitions, open, state, error, isNewest}, of the event at position `at`. */
export const explanation = signal(null);
/** The server's last answer about the live cluster's present: the verdict, `position` of its newest event, `is_recording`,
 *  and how long it took (`tookMs`); null before the first. */
export const presentAnswer = signal(null);
/** For how long such an answer is awaited by now; 0 when it is there. */
export const unansweredMs = signal(0);
/** The header of the trace that is shown. */
export const traceHeader = signal({});
/** The list of runs of a page in a file: {remark, runs}; null where a server answers. */
export const runFile = signal(null);
/** Where a driven run stands: {next, back, inputs, error}; null if no run is driven. */
export const drivenRun = signal(null);
/** The lesson that is played: its texts, the part, the answers so far; null for none. */
export const lesson = signal(null);
/** The fact that an open question of the lesson asks about; null if none is open. Views hide what would answer it. */
export const askedFact = computed(() => {
  const shownLesson = lesson.value;
  const shownLessonPart = shownLesson?.parts[shownLesson.part];
  return shownLessonPart?.ask && !shownLesson.shown ? (shownLessonPart.fact ?? "").split(" ")[0] || "answer" : null;
});
/** Whether the learner has to find the repair: then nothing names it. */
export const isLearnersTask = computed(() => Boolean(lesson.value && lesson.value.part < lesson.value.parts.length));
/** Whether the page is presented to a class: in large type, with answers on demand. */
export const isPresenting = signal(/[#&]present=1/.test(globalThis.location?.hash ?? ""));
/** Ids of the folds that are open. A tab remembers them. */
export const openFolds = signal((rememberInTab("txnsim-details") ?? "").split(" "));
/** Whether details of events are unfolded. */
export const isDetailed = computed(() => openFolds.value.includes("details") || openFolds.value.includes("event"));
/** Whether the page is embedded in another one and shows the picture and the steps only. */
export const isEmbedded = /[#&]embed=1/.test(globalThis.location?.hash ?? "");
/** Whether a command to a driven run is under way. */
export const isRunBusy = signal(false);
/** Whether the page holds as many events as it can, and takes no more. */
export const isTraceFull = signal(false);
/** Whether actions are possible: on a live cluster, or in a run that waits at a step. */
export const canChangeCluster = computed(() => traceOrigin.value.kind === "live" || Boolean(drivenRun.value?.next));
/** What the judges have found in the trace, as the server tells it: {rule, found, at, shown_by}. */
export const findings = signal([]);
/** Position of the event that shows the first finding; undefined where there is none. */
export const telltalePosition = () => findings.value.find(({ shown_by: shownBy }) => shownBy !== null)?.shown_by;
/** The violations of the trace, as the judges found them. */
export const violations = signal([]);

/** The run beside the shown one, and the rows in which the two are compared; null for none. */
export const comparison = signal(null);

/** Call `callback` with another trace as the current one: the functions of this module then ask that trace. */
export function withTrace(otherTrace, callback) {
  const traceBefore = currentTrace;
  currentTrace = otherTrace;
  try {
    return callback();
  } finally {
    currentTrace = traceBefore;
  }
}
/** The current trace: the one that is shown, or that of `withTrace`. */
export const getCurrentTrace = () => currentTrace;

/** Show another trace. */
export function showTrace(nextTrace, origin) {
  batch(() => {
    currentTrace = nextTrace;
    eventCount.value = events.length;
    cursorIndex.value = null;
    inspectedIndex.value = null;
    explanation.value = null;
    chosenPartition.value = null;
    chosenTransactionalId.value = null;
    traceHeader.value = currentTrace.header;
    violations.value = [...currentTrace.violations];
    findings.value = origin.findings ?? [];
    isTraceFull.value = Boolean(currentTrace.isFull);
    lostEventCount.value = 0;
    if (origin.kind !== "run" || origin.id !== traceOrigin.value.id) drivenRun.value = comparison.value = null;
    traceOrigin.value = origin;
  });
}

/** Events are drawn at most once per DRAW_INTERVAL_MS, and after each drawing there is a rest, REST_FACTOR times as
 *  long as the drawing took. So the page takes a part of a core only, however slowly it draws. */
const DRAW_INTERVAL_MS = 100, REST_FACTOR = 3;
/** No rest is longer: a page that was hidden meanwhile measures too long a drawing. */
const DRAW_REST_MAX_MS = 2000;
let drawTimer = 0, nextDrawMs = 0;
/** Functions to call with the next drawing. */
let pendingChanges = [];

/** Add arrived events, in order; those that are already there are skipped. */
export function addEvents(arrivals) {
  arrivedEventCount += arrivals.length;
  if (!arrivals.every((event) => currentTrace.add(event))) isTraceFull.value = true;
  scheduleDrawing();
}

/** Make a change with the next drawing, so that it causes no drawing of its own. */
export function changeWithNextDrawing(change) {
  pendingChanges.push(change);
  scheduleDrawing();
}

function scheduleDrawing() {
  if (!drawTimer) drawTimer = setTimeout(drawChanges, Math.max(0, nextDrawMs - performance.now()));
}

function drawChanges() {
  drawTimer = 0;
  const drawStartMs = performance.now();
  if (drawStartMs < nextDrawMs) return scheduleDrawing(); // the last drawing took longer than was known when this was scheduled
  const dueChanges = pendingChanges;
  pendingChanges = [];
  batch(() => {
    if (currentTrace.violations.length > violations.value.length) violations.value = [...currentTrace.violations];
    eventCount.value = events.length;
    for (const dueChange of dueChanges) dueChange();
  });
  // Components render in a microtask; layout and paint follow in the next frame, if the page is visible at all.
  nextDrawMs = drawStartMs + DRAW_INTERVAL_MS;
  queueMicrotask(() => {
    const renderedMs = performance.now();
    postponeDrawing(renderedMs - drawStartMs);
    requestAnimationFrame(() => {
      const paintStartMs = performance.now();
      setTimeout(() => postponeDrawing(renderedMs - drawStartMs + performance.now() - paintStartMs));
    });
  });
}

/** Delay the next drawing according to how long one took. */
function postponeDrawing(tookMs) {
  nextDrawMs = Math.max(nextDrawMs, performance.now() + Math.min(DRAW_REST_MAX_MS, REST_FACTOR * tookMs));
}

/** Events that arrived in the last second. */
export const eventRate = signal(0);
/** Events that have arrived in the current second. Events that the server had kept are read at once, and don't count. */
let arrivedEventCount = 0;
setInterval(() => {
  eventRate.value = traceOrigin.value.kind === "live" ? arrivedEventCount : 0;
  arrivedEventCount = 0;
}, 1000);

export const indexOfPosition = (position) => currentTrace.indexOf(position);
export const newestEventIndex = () => events.length - 1;
/** Indices of the writes of a partition's leaders, and of elections whose leader has a shorter log. */
export const leaderWritesOf = (tp) => currentTrace.writeIndicesByPartition.get(tp) ?? [];
/** Indices of the elections whose leader has a shorter log. */
export const logCutsOf = (tp) => currentTrace.cutIndicesByPartition.get(tp) ?? [];
/** Indices of the completed changes of state of a transactional id. */
export const stateMovesOf = (id) => currentTrace.moveIndicesById.get(id) ?? [];
/** Indices of the story's own sentences, of held messages, of releases. */
export const storyNotes = () => currentTrace.noteIndices;
export const getHoldIndices = () => currentTrace.holdIndices;
export const getReleaseIndices = () => currentTrace.releaseIndices;
/** The transactions of a transactional id, in order. */
export const transactionsOf = (id) => currentTrace.transactionsById.get(id) ?? [];
export const stateAt = (index) => currentTrace.stateAt(index);

export const shownIndex = computed(() => {
  const newestIndex = eventCount.value - 1;
  return cursorIndex.value === null ? newestIndex : Math.min(cursorIndex.value, newestIndex);
});
/** The state under the cursor; a new object for each cursor, the same one for the newest. */
export const shownState = computed(() => ({ at: shownIndex.value, of: traceOrigin.value, clusterState: stateAt(shownIndex.value) }));
/** The index of `judgedMoment`: on a live cluster the event that was explained last, else the event under the cursor. */
const momentIndex = computed(() => {
  const newestIndex = shownIndex.value;
  return (cursorIndex.value === null && explanation.value?.isNewest ? indexOfPosition(explanation.value.at) : undefined) ?? newestIndex;
});
/** The words of an explanation in tables without a prototype: their keys are names that users give. */
const inSafeTables = (words) => Object.fromEntries(Object.entries(words ?? {}).map(([kind, table]) => [kind, Object.assign(Object.create(null), table)]));
/** What all views that judge show: one event, the state after it, and the server's explanation of that very event.
 *  `serverExplanation`, the explanation, is null until it has arrived, and where there is none: `error` tells why. */
export const judgedMoment = computed(() => {
  void traceOrigin.value;
  const eventIndex = momentIndex.value;
  const eventPosition = events[eventIndex]?.i;
  const clusterState = stateAt(eventIndex);
  const momentExplanation = explanation.value?.at === eventPosition ? explanation.value : null;
  const momentJudgement = momentExplanation && !momentExplanation.error ? momentExplanation : null;
  // The trace changes its newest state with the next event; what is shown must not change.
  return { index: eventIndex, position: eventPosition, clusterState: eventIndex >= newestEventIndex() ? copyState(clusterState) : clusterState, serverExplanation: momentJudgement && { ...momentJudgement, words: inSafeTables(momentJudgement.words) }, error: momentExplanation?.error ?? "", open: momentJudgement?.open ?? [] };
});
export const shownEvent = computed(() => events[inspectedIndex.value ?? shownIndex.value]);

export function goToEvent(index) {
  const newestIndex = events.length - 1;
  batch(() => {
    eventCount.value = events.length; // the event may not be drawn yet
    cursorIndex.value = Math.max(0, Math.min(index, newestIndex));
    inspectedIndex.value = null;
  });
}

export function goToNewest() {
  batch(() => {
    if (cursorIndex.value !== null && explanation.value) explanation.value = { ...explanation.value, isNewest: false };
    cursorIndex.value = null;
    inspectedIndex.value = null;
  });
}

/** Where the page stands until a hang has been made, so that its end is not seen first; null for nowhere. */
export const waitingIndex = signal(null);
export const isHangAwaited = computed(() => waitingIndex.value !== null && cursorIndex.value === waitingIndex.value);

/** Choose a view, and close the help or Share. */
export function chooseView(name) {
  batch(() => {
    shownView.value = name;
    isHelpOpen.value = false;
    isShareOpen.value = false;
  });
}

/** At most so many causes are followed: on a cluster that has run for days the chain may be endless. */
const CAUSES_MAX = 200;

/** The main cause of an event; undefined for a root, or where it is not kept. */
function mainCauseOf({ i, p }) {
  const causeEventIndex = p.length ? currentTrace.indexOf(p[0]) : undefined;
  const cause = causeEventIndex === undefined ? undefined : currentTrace.event(causeEventIndex);
  return cause && cause.i < i ? cause : undefined;
}

/** The first of an event and its main causes for which the predicate holds; undefined for none. */
export function nearestAncestor(event, predicate) {
  for (let ancestor = event, n = 0; ancestor && n < CAUSES_MAX; ancestor = mainCauseOf(ancestor), n += 1) if (predicate(ancestor)) return ancestor;
  return undefined;
}

/** An event and its main causes, back to the root, at most CAUSES_MAX. */
export function causeChainOf(event) {
  const causeChain = [];
  nearestAncestor(event, (cause) => void causeChain.push(cause));
  return causeChain;
}

/** Kinds that only repeat their cause: `shownCausesOf` skips them, except at the root, as txnsim_lab.trace.explain does. */
const COPY_KINDS = new Set(["msg.send", "msg.recv", "log.hw", "txn.decide", "txn.prepare"]);
export const shownCausesOf = (event) => causeChainOf(event).filter((cause, n, chain) => n === 0 || n === chain.length - 1 || !COPY_KINDS.has(cause.k));

// For tests and for the console.
globalThis.__sim = {
  events, stateAt, at: shownIndex, cursor: cursorIndex, count: eventCount, explained: explanation, go: goToEvent, link: connectionState,
};
