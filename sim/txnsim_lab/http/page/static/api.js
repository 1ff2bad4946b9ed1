// @ts-check
// What the page asks of the control port: the session, the stream of events, questions and actions.

import { batch } from "@preact/signals";
import { Trace, readTrace } from "./book.js";
import { batchesOf } from "./rows.js";
import { isRunBusy, chooseView, comparison, eventCount, cursorIndex, drivenRun, events, explanation, runFile, goToEvent, indexOfPosition, lesson, connectionState, goToNewest, lostEventCount, storyNotes, chosenPartition, presentAnswer, unansweredMs, problemText, showTrace, readEventCount, isClusterReplaced, noticeText, traceOrigin, addEvents, shownView, telltalePosition, changeWithNextDrawing } from "./store.js";
import { stepAt } from "./stage.js";
import { isSite, askWorker } from "./site.js";

const API_PREFIX = "/api/v1";
const RECONNECT_MS = 1000;
/** Reading a trace of more events takes a while, so the page shows its progress. */
const PROGRESS_EVENTS_MIN = 20_000;
const PROGRESS_INTERVAL_MS = 200;
/** Rises with each trace that is shown, or is being read to be shown. */
let traceGeneration = 0;
/** Rises with each choice of what to show: an answer that belongs to an earlier choice is dropped. A live trace
 *  stays on the screen until what was chosen has arrived. */
let sourceChoiceCount = 0;
const beginSourceChoice = () => (sourceChoiceCount += 1);

/** Trade the token behind # for a cookie; it reaches no log and leaves the address bar. */
export async function openSession() {
  const sessionToken = new URLSearchParams(location.hash.slice(1)).get("token");
  if (sessionToken) {
    await fetch(`${API_PREFIX}/session`, { method: "POST", headers: { Authorization: `Bearer ${sessionToken}` } });
    const addressParameters = new URLSearchParams(location.hash.slice(1));
    addressParameters.delete("token");
    history.replaceState(null, "", location.pathname + (addressParameters.size ? `#${addressParameters}` : ""));
  }
}

/** Ask the control port or, on a site without a server, the worker that takes its place. */
const callControlPort = isSite ? askWorker : (path, options) => fetch(API_PREFIX + path, options);

export async function askServer(path, options = {}) {
  const response = await callControlPort(path, options);
  const responseText = await response.text();
  let parsedAnswer = null;
  try {
    parsedAnswer = responseText ? JSON.parse(responseText) : null;
  } catch {
    parsedAnswer = responseText;
  }
  if (!response.ok) throw new Error(parsedAnswer?.error ?? `${response.status} ${response.statusText}`);
  return parsedAnswer;
}

export const postJson = (path, body) =>
  askServer(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });

/** Save what the control port answers for a path as a file. */
export const saveAnswer = (path, name) =>
  runTask(async () => {
    const response = await callControlPort(path);
    if (!response.ok) throw new Error((await response.json()).error);
    const downloadLink = Object.assign(document.createElement("a"), { href: URL.createObjectURL(await response.blob()), download: name });
    downloadLink.click();
    URL.revokeObjectURL(downloadLink.href);
  });

/** Run a task; if it fails, show the reason. */
export async function runTask(task) {
  try {
    problemText.value = noticeText.value = "";
    return await task();
  } catch (error) {
    problemText.value = error.message;
    return null;
  }
}

/** Change the cluster as it is now, and show what was done: `report` is a sentence, or makes one of the
 *  answer. */
export const changeCluster = (task, report) => {
  goToNewest(); // an action always happens at the newest event
  return runTask(async () => {
    const taskAnswer = await task();
    noticeText.value = typeof report === "string" ? report : report(taskAnswer);
  });
};

export const startRecording = () =>
  runTask(async () => {
    await postJson("/trace", { level: "brief" });
    await followLiveTrace();
  });

/** Return a callback for `readTrace`: it shows how many events were read, and tells whether the trace is still wanted. */
const progressReporter = (generationAtStart) => {
  let lastReportMs = 0;
  return (eventCount) => {
    const nowMs = performance.now();
    if (eventCount > PROGRESS_EVENTS_MIN && nowMs - lastReportMs > PROGRESS_INTERVAL_MS) [readEventCount.value, lastReportMs] = [eventCount, nowMs];
    return generationAtStart === traceGeneration;
  };
};

/** The id of the trace that an answer belongs to: a restarted cluster has another one. */
const traceIdOf = (answer) => answer.headers.get("Txnsim-Trace");

/** The cluster's own trace, as far as the server keeps it, with its id; null if it is no longer wanted. */
async function readClusterTrace(generationAtStart) {
  const response = await fetch(`${API_PREFIX}/trace`);
  if (response.status === 401) {
    connectionState.value = "refused";
    return null;
  }
  if (!response.ok) throw new Error(response.statusText);
  const trace = await readTrace(response, progressReporter(generationAtStart));
  readEventCount.value = 0;
  return trace && { trace, identity: traceIdOf(response) };
}

/** Follow the cluster's own trace from the first event that the server keeps; after a break, connect again. */
export async function followLiveTrace() {
  if (traceOrigin.value.kind === "run") void leaveRun();
  lesson.value = runFile.value = null;
  beginSourceChoice();
  traceGeneration += 1;
  const generationAtStart = traceGeneration;
  if (isSite) { // there is no cluster to follow
    showTrace(new Trace(), { kind: "site" });
    connectionState.value = "none";
    chooseView("stage");
    return;
  }
  connectionState.value = "connecting";
  showTrace(new Trace(), { kind: "live" });
  let nextPosition = -1; // nothing has been read yet
  let traceId = null;
  while (generationAtStart === traceGeneration) {
    try {
      if (nextPosition < 0) {
        const clusterTrace = await readClusterTrace(generationAtStart);
        if (!clusterTrace || generationAtStart !== traceGeneration) return;
        showTrace(clusterTrace.trace, { kind: "live" });
        nextPosition = clusterTrace.trace.newestPosition + 1;
        traceId = clusterTrace.identity;
      }
      const response = await fetch(`${API_PREFIX}/events/packed?from=${nextPosition}`);
      if (response.status === 409) {
        connectionState.value = "off";
        return;
      }
      if (response.status === 401) {
        connectionState.value = "refused";
        return;
      }
      if (!response.ok) throw new Error(response.statusText);
      if (generationAtStart !== traceGeneration) return void response.body.cancel();
      if (traceIdOf(response) !== traceId) { // events of two clusters must not be mixed
        void response.body.cancel();
        isClusterReplaced.value = true;
        nextPosition = -1;
        continue;
      }
      connectionState.value = "live";
      for await (const arrivedBatch of batchesOf(response.body)) {
        if (generationAtStart !== traceGeneration) return;
        lostEventCount.value += arrivedBatch.lost;
        addEvents(arrivedBatch.events);
        nextPosition = Math.max(nextPosition, arrivedBatch.events.at(-1).i + 1);
      }
    } catch {
      // The server or the network has failed: try again below.
    }
    if (generationAtStart !== traceGeneration) return;
    connectionState.value = "lost";
    await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
  }
}

/** Whether the address leads to a run or a lesson, and not to the live cluster. */
export const isRunLinked = () => /[#&](run|lesson)=/.test(location.hash);

/** The live cluster's present is asked for again after so long, and after REST_FACTOR times as long as the answer took. */
const PRESENT_INTERVAL_MS = 1000, PRESENT_REST_FACTOR = 3;

/** Ask again and again, one question at a time, how far the live cluster is: so the page knows how far it is behind,
 *  also where the stream of events is slow, and notices that recording has been switched off or on. */
export async function followPresent() {
  const isAskedInState = { connecting: !isRunLinked(), live: true, off: true };
  for (let tookMs = 0, waitMs = 0; ; waitMs = Math.max(PRESENT_INTERVAL_MS, PRESENT_REST_FACTOR * tookMs)) {
    if (waitMs) await new Promise((resolve) => setTimeout(resolve, waitMs)); // at first it is asked at once: reading a long trace takes seconds
    if (traceOrigin.value.kind !== "live" || !isAskedInState[connectionState.value] || document.hidden) continue;
    const startMs = performance.now();
    const lateTimer = setInterval(() => (unansweredMs.value = performance.now() - startMs), PRESENT_INTERVAL_MS);
    try {
      const answer = await askServer("/verdict");
      tookMs = performance.now() - startMs;
      batch(() => {
        presentAnswer.value = { ...answer, tookMs };
        unansweredMs.value = 0;
      });
      if (connectionState.value === "off" && answer.is_recording && traceOrigin.value.kind === "live") void followLiveTrace();
    } catch {
      unansweredMs.value = Math.max(unansweredMs.value, 2 * PRESENT_INTERVAL_MS + 1); // said until an answer comes
    } finally {
      clearInterval(lateTimer);
    }
  }
}

/** Write the marker that the judge names for each hanging transaction of a partition, or ABORT where the decision is unknown. */
export function repairPartition({ partition: tp, ends: { marker }, open_txns: openTxns }) {
  const dashIndex = tp.lastIndexOf("-");
  return changeCluster(async () => {
    if (traceOrigin.value.kind === "live") return postJson("/repairs", { topic: tp.slice(0, dashIndex), partition: Number(tp.slice(dashIndex + 1)), guess: marker ? null : "abort" });
    for (const { state, first_offset: firstOffset, ends } of openTxns) if (state === "hangs") await sendInput({ call: { who: "operator", do: "abort", partition: tp, "start-offset": firstOffset, decision: ends.marker === "COMMIT" ? "commit" : "abort" } });
  }, `The ${marker ?? "ABORT"} marker is written on ${tp}.`);
}

/** Show a whole trace: header, events, trailer as JSON lines. False if something else was chosen meanwhile. */
export async function loadTrace(response, origin, choiceCountAtStart = beginSourceChoice()) {
  if (choiceCountAtStart !== sourceChoiceCount) return false;
  traceGeneration += 1;
  const generationAtStart = traceGeneration;
  const trace = await readTrace(response, progressReporter(generationAtStart));
  readEventCount.value = 0;
  if (!trace || generationAtStart !== traceGeneration || choiceCountAtStart !== sourceChoiceCount) return false;
  showTrace(trace, origin);
  connectionState.value = "done";
  return true;
}

/** Go to the event at a position; false where there is none. */
function goToPosition(position) {
  const index = position === undefined ? undefined : indexOfPosition(position);
  if (index !== undefined) goToEvent(index);
  return index !== undefined;
}
/** Go to the event that shows what the judges have found first; false where they have found nothing. */
const goToTelltale = () => goToPosition(telltalePosition());

/** Run a scenario in virtual time, in a process of its own, and show it: to its end unless `paused`. `yaml` is the
 *  text of a story that is not shipped. False if something else was chosen meanwhile. */
export async function playRun(scenarioName, runName, takeName, seed = 1, { paused = false, inputs = [], of: lessonPart = "", yaml } = {}) {
  if (traceOrigin.value.kind === "run") void leaveRun();
  lesson.value = runFile.value = null;
  const choiceCountAtStart = beginSourceChoice();
  const storySource = yaml ? { yaml } : { name: scenarioName };
  const startedRun = await postJson(`/runs?${WAIT_PARAMETER}`, { ...storySource, runs: [runName], takes: [takeName], seed, paused: true, inputs, lesson: lessonPart });
  const runOrigin = { kind: "run", id: startedRun.id, title: startedRun.title, name: scenarioName, run: runName, take: takeName, seed, yaml };
  if (!(await showDrivenRun(runOrigin, startedRun, choiceCountAtStart))) {
    void endRun(startedRun.id);
    return false;
  }
  chooseView("stage"); // now: at the end of the run the reader may be in another view
  if (paused || !drivenRun.value?.next) return true;
  await sendRunCommand("go", {});
  if (choiceCountAtStart !== sourceChoiceCount) return false;
  goToTelltale(); // not to the end of the run, where it is cured
  return true;
}

/** Play the run that a link names, and show the event and the view that the link names. */
export async function repeatRun({ name, run, take: takeName, seed, inputs, step, at: position, view: viewName, partition: tp, other: otherRunName }) {
  if (!(await playRun(name, run, takeName, seed, { paused: step !== undefined, inputs }))) return;
  if (step) await sendRunCommand("go", { steps: step });
  if (otherRunName) await compareWithRun(otherRunName);
  batch(() => {
    shownView.value = viewName;
    chosenPartition.value = tp;
  });
  goToPosition(position);
}

/** Play another run of the same story, with the same inputs, beside the run that is shown. Unless it is named,
 *  it is a run with the opposite verdict, preferably the one with transactions v2. */
export async function compareWithRun(wantedRunName) {
  const { name, take: takeName, seed, run: ownRunName, yaml } = traceOrigin.value;
  const choiceCountAtStart = sourceChoiceCount;
  if (yaml) throw new Error("runs of a story that is not shipped are not compared here: txnsim diff compares their traces");
  const { runs } = (await askServer("/scenarios")).find((scenario) => scenario.name === name || scenario.aliases.includes(name));
  const otherRunNames = Object.keys(runs).filter((label) => label !== ownRunName);
  const oppositeVerdictRuns = otherRunNames.filter((label) => (runs[label] === "healthy") !== (runs[ownRunName] === "healthy"));
  const otherRunName = wantedRunName ?? (oppositeVerdictRuns.includes("TV2") ? "TV2" : (oppositeVerdictRuns[0] ?? otherRunNames[0]));
  if (!otherRunName) throw new Error("this story has one run: there is nothing to compare it with");
  const otherOrigin = { kind: "run", name, run: otherRunName, take: takeName, seed };
  const startedRun = await postJson(`/runs?${WAIT_PARAMETER}`, { name, runs: [otherRunName], takes: [takeName], seed, inputs: drivenRun.value?.inputs ?? [] });
  if (startedRun.error) throw new Error(startedRun.error);
  const response = await callControlPort(`/runs/${startedRun.id}/trace?${new URLSearchParams({ run: otherRunName, take: takeName })}`);
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  const otherTrace = await readTrace(response);
  if (choiceCountAtStart !== sourceChoiceCount) return;
  const runPair = { of: traceOrigin.value.id, trace: otherTrace, about: { ...otherOrigin, id: startedRun.id, verdict: startedRun.runs[0] }, names: [ownRunName, otherRunName], others: otherRunNames };
  comparison.value = { ...runPair, ...(await askDifference(traceOrigin.value, runPair)) };
  const { first: firstDifference, rows } = comparison.value;
  if (firstDifference) goToEvent(stepAt(storyNotes()[rows[firstDifference.row].left - 1]).to);
}

/** Ask how the steps of two runs are aligned, and where they differ first: {rows, first}. */
const askDifference = ({ id, run, take }, { about }) => askServer(`/runs/${id}/difference?${new URLSearchParams({ run, take, beside: about.id, beside_run: about.run })}`);

const WAIT_PARAMETER = "wait_ms=60000";
const isFailedOrCancelled = (run) => run.state === "failed" || run.state === "cancelled";

/** Show where a driven run stands now. False if something else was chosen meanwhile. */
async function showDrivenRun(runOrigin, runStatus, choiceCountAtStart) {
  if (isFailedOrCancelled(runStatus)) throw new Error(runStatus.error ?? "the run was ended");
  const runQuery = new URLSearchParams({ run: runOrigin.run, take: runOrigin.take });
  const response = await callControlPort(`/runs/${runOrigin.id}/trace?${runQuery}`);
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  const partitionBefore = chosenPartition.value;
  const findings = await askServer(`/runs/${runOrigin.id}/findings?${runQuery}`);
  const difference = comparison.value?.of === runOrigin.id ? await askDifference(runOrigin, comparison.value) : null; // asked again whenever the run goes on
  if (!(await loadTrace(response, { ...runOrigin, verdict: runStatus.runs[0], findings }, choiceCountAtStart))) return false;
  batch(() => {
    chosenPartition.value = partitionBefore;
    drivenRun.value = runStatus.at;
    if (comparison.value && difference) comparison.value = { ...comparison.value, ...difference };
  });
  if (runStatus.at.next) connectionState.value = "paused";
  if (runStatus.at.error) throw new Error(runStatus.at.error);
  return true;
}

/** Send a command to the run that is shown: to go on, to go back, to take an input. */
export async function sendRunCommand(verb, body) {
  const runOrigin = traceOrigin.value;
  isRunBusy.value = true;
  cancelExplanation();
  try {
    const choiceCountAtStart = sourceChoiceCount;
    const runStatus = await postJson(`/runs/${runOrigin.id}/${verb}?${WAIT_PARAMETER}`, body);
    if (choiceCountAtStart === sourceChoiceCount) await showDrivenRun(runOrigin, runStatus, choiceCountAtStart);
  } finally {
    isRunBusy.value = false;
  }
}
export const sendInput = (step) => sendRunCommand("inputs", { step });

/** End the process of the run that was shown. */
export function leaveRun() {
  cancelExplanation();
  return endRun(traceOrigin.value.id);
}
const endRun = (id) => askServer(`/runs/${id}`, { method: "DELETE", keepalive: true }).catch(() => null);

/** The document that holds the runs: this page, or a file that was opened in it. */
let runsDocument = document;
/** Unpack what a page in a file holds in the element with this id. */
function unpackElement(id) {
  const base64Text = runsDocument.getElementById(id).textContent;
  const packedBytes = Uint8Array.fromBase64?.(base64Text) ?? Uint8Array.from(atob(base64Text), (character) => character.charCodeAt(0));
  return new Response(new Blob([packedBytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

/** Read the list of runs that a page in a file carries, and show the first run. */
export async function showPackedRuns() {
  runFile.value = await unpackElement("runs").json();
  await showRunOfFile(0);
}

/** Open a trace, or a page with its runs, from the reader's disk. */
export async function openFile(file) {
  const choiceCountAtStart = beginSourceChoice();
  const fileText = await file.text();
  const runsPage = fileText.trimStart().startsWith("<") ? new DOMParser().parseFromString(fileText, "text/html") : null;
  if (traceOrigin.value.kind === "run") void leaveRun();
  lesson.value = null;
  if (runsPage) {
    if (!runsPage.getElementById("runs")) throw new Error(`${file.name} holds no run`);
    runsDocument = runsPage;
    await showPackedRuns();
  } else {
    const { id, findings } = await postJson("/traces", { name: file.name, trace: fileText });
    runFile.value = null;
    if (!(await loadTrace(new Response(fileText), { kind: "file", id, title: file.name, findings }, choiceCountAtStart))) return;
    goToTelltale();
  }
  chooseView("stage");
}

/** Show one of the runs of the file. */
export async function showRunOfFile(runIndex) {
  const { title, moments, findings } = runFile.value.runs[runIndex];
  if (!(await loadTrace(unpackElement(`trace-${runIndex}`), { kind: "file", index: runIndex, title, moments, findings }))) return;
  if (!goToTelltale()) goToPosition(moments.find(({ verdict }) => verdict.state === "hangs")?.at);
}

/** The explanation of an event that the file holds; `moments` are sorted by position. */
function explanationFromFile(moments, event) {
  let lowIndex = 0, highIndex = moments.length;
  while (lowIndex < highIndex) {
    const midIndex = (lowIndex + highIndex) >> 1;
    if (moments[midIndex].at <= event.i) lowIndex = midIndex + 1;
    else highIndex = midIndex;
  }
  if (lowIndex) return { ...moments[lowIndex - 1], at: event.i };
  const errorText = moments.length ? `this file explains events from #${moments[0].at} on` : "this file explains nothing";
  return { at: event.i, partitions: [], open: [], error: errorText };
}

/** Ask the server to explain the state of a run after an event. */
export function askExplanation(runOrigin, position, signal) {
  const explainParameters = new URLSearchParams({ at: String(position) });
  const runQuery = runOrigin.kind === "run" ? { of: runOrigin.id, run: runOrigin.run, take: runOrigin.take } : runOrigin.id ? { of: runOrigin.id } : {};
  for (const [name, value] of Object.entries(runQuery)) explainParameters.set(name, value);
  return askServer(`/explain?${explainParameters}`, { signal });
}

/** Explanations of events before the newest, by the origin of their trace and by position: what is past stays as it was. */
const keptExplanations = new WeakMap();
const KEPT_EXPLANATIONS_MAX = 24;
/** Of a longer trace the next step is not asked for before somebody goes there: the server reads the trace anew for it. */
const FORESEEN_EVENTS_MAX = 20_000;

function keepExplanation(askedOrigin, pastExplanation) {
  const keptByPosition = keptExplanations.get(askedOrigin) ?? new Map();
  keptExplanations.set(askedOrigin, keptByPosition.set(pastExplanation.at, { ...pastExplanation, isNewest: false }));
  if (keptByPosition.size > KEPT_EXPLANATIONS_MAX) keptByPosition.delete(keptByPosition.keys().next().value);
}

export const keptExplanationOf = (index) => keptExplanations.get(traceOrigin.value)?.get(events[index]?.i);

/** Show the explanation of an event under the cursor at once, if it is kept. Whether it is. */
export function showKeptExplanation(index) {
  const keptExplanation = cursorIndex.value === null ? undefined : keptExplanationOf(index);
  if (!keptExplanation) return false;
  cancelExplanation();
  explanation.value = keptExplanation;
  return true;
}

/** Ask about the end of the next step of the story, so that it is explained when somebody goes there. */
async function foreseeNextStep(askedOrigin, index, signal) {
  const nextIndex = (stepAt(index)?.to ?? Infinity) + 1;
  if (isSite || nextIndex >= events.length || events.length > FORESEEN_EVENTS_MAX) return;
  const { to } = stepAt(nextIndex);
  if (keptExplanationOf(to)) return;
  const nextExplanation = await askExplanation(askedOrigin, events[to].i, signal).catch(() => null); // it is asked again when somebody is there
  if (nextExplanation) keepExplanation(askedOrigin, nextExplanation);
}

/** Show an explanation; where events arrive by themselves, together with the next drawing. */
function showExplanation(askedOrigin, newExplanation, signal) {
  const isOriginShown = () => askedOrigin === traceOrigin.value;
  if (signal.aborted || !isOriginShown()) return;
  if (cursorIndex.value === null) changeWithNextDrawing(() => isOriginShown() && (explanation.value = newExplanation));
  else explanation.value = newExplanation;
}

let explanationAbort = new AbortController();
/** Cancel the open question: the run may lose the event that it is about. */
const cancelExplanation = () => explanationAbort.abort();

/** Explain the event under the cursor. A newer question cancels an older one. */
export async function explainEvent(index) {
  const event = events[index];
  if (!event || isRunBusy.value) return; // it is asked again when the command has ended
  if (traceOrigin.value.moments) {
    explanation.value = explanationFromFile(traceOrigin.value.moments, event);
    return;
  }
  cancelExplanation();
  explanationAbort = new AbortController();
  const { signal } = explanationAbort;
  const askedOrigin = traceOrigin.value;
  const isAtNewest = cursorIndex.value === null;
  try {
    const newExplanation = await askExplanation(askedOrigin, event.i, signal);
    showExplanation(askedOrigin, { ...newExplanation, isNewest: isAtNewest && newExplanation.at === event.i }, signal);
    if (isAtNewest) return;
    keepExplanation(askedOrigin, newExplanation);
    void foreseeNextStep(askedOrigin, index, signal);
  } catch (error) {
    if (eventCount.value) showExplanation(askedOrigin, { at: event.i, partitions: [], open: [], error: error.message }, signal);
  }
}
