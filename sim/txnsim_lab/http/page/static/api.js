// @ts-check
// What the page asks of the control port: the session, the stream of events, questions and actions.

import { batch } from "@preact/signals";
import { Book, readBook } from "./book.js";
import { batchesOf } from "./rows.js";
import { thisBook, busy, chooseView, comparison, count, cursor, drivenRun, events, explanation, runFile, goTo, indexOf, lesson, link, goLive, lostCount, storyNotes, partition, problem, showBook, readCount, isReplaced, notice, source, addEvents, view, violations, withNext } from "./store.js";
import { firstDifference, rowsOf } from "./compare.js";
import { decisive, stepAt } from "./stage.js";
import { isSite, reach } from "./site.js";

const PREFIX = "/api/v1";
const RETRY_MS = 1000;
/** Reading a trace of more events takes a while, so the page shows its progress. */
const SHOWN_FROM = 20_000;
const SHOWN_MS = 200;
/** Rises with each trace that is shown, or is being read to be shown. */
let generation = 0;
/** Rises with each choice of what to show: an answer that belongs to an earlier choice is dropped. A live trace
 *  stays on the screen until what was chosen has arrived. */
let choice = 0;
const newChoice = () => (choice += 1);

/** Trade the token behind # for a cookie; it reaches no log and leaves the address bar. */
export async function openSession() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    await fetch(`${PREFIX}/session`, { method: "POST", headers: { Authorization: `Bearer ${token}` } });
    const query = new URLSearchParams(location.hash.slice(1));
    query.delete("token");
    history.replaceState(null, "", location.pathname + (query.size ? `#${query}` : ""));
  }
}

/** Ask the control port or, on a site without a server, the worker that takes its place. */
const call = isSite ? reach : (path, options) => fetch(PREFIX + path, options);

export async function ask(path, options = {}) {
  const answer = await call(path, options);
  const text = await answer.text();
  let value = null;
  try {
    value = text ? JSON.parse(text) : null;
  } catch {
    value = text;
  }
  if (!answer.ok) throw new Error(value?.error ?? `${answer.status} ${answer.statusText}`);
  return value;
}

export const post = (path, body) =>
  ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });

/** Save what the control port answers for a path as a file. */
export const saveAnswer = (path, name) =>
  act(async () => {
    const answer = await call(path);
    if (!answer.ok) throw new Error((await answer.json()).error);
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(await answer.blob()), download: name });
    link.click();
    URL.revokeObjectURL(link.href);
  });

/** Run a task; if it fails, show the reason. */
export async function act(task) {
  try {
    problem.value = notice.value = "";
    return await task();
  } catch (error) {
    problem.value = error.message;
    return null;
  }
}

/** Change the cluster as it is now, and show what was done: `report` is a sentence, or a function that makes one
 *  of the answer. */
export const doNow = (task, report) => {
  goLive(); // an action always happens at the newest event
  return act(async () => {
    const answer = await task();
    notice.value = typeof report === "string" ? report : report(answer);
  });
};

export const startRecording = () =>
  act(async () => {
    await post("/trace", { level: "brief" });
    await followLiveTrace();
  });

/** A function that shows how many events were read, and tells whether the trace is still wanted. */
const progressOf = (ownGeneration) => {
  let shownMs = 0;
  return (eventCount) => {
    const nowMs = performance.now();
    if (eventCount > SHOWN_FROM && nowMs - shownMs > SHOWN_MS) [readCount.value, shownMs] = [eventCount, nowMs];
    return ownGeneration === generation;
  };
};

/** The id of the trace that an answer belongs to: a restarted cluster has another one. */
const identityOf = (answer) => answer.headers.get("Txnsim-Trace");

/** The cluster's own trace, as far as the server keeps it, with its id; null if it is no longer wanted. */
async function readOwnTrace(ownGeneration) {
  const answer = await fetch(`${PREFIX}/trace`);
  if (answer.status === 401) {
    link.value = "refused";
    return null;
  }
  if (!answer.ok) throw new Error(answer.statusText);
  const book = await readBook(answer, progressOf(ownGeneration));
  readCount.value = 0;
  return book && { book, identity: identityOf(answer) };
}

/** Follow the cluster's own trace from the first event that the server keeps; after a break, connect again. */
export async function followLiveTrace() {
  if (source.value.kind === "run") void leaveRun();
  lesson.value = runFile.value = null;
  newChoice();
  generation += 1;
  const ownGeneration = generation;
  if (isSite) { // there is no cluster to follow
    showBook(new Book(), { kind: "site" });
    link.value = "none";
    chooseView("stage");
    return;
  }
  link.value = "connecting";
  showBook(new Book(), { kind: "live" });
  let next = -1; // nothing has been read yet
  let identity = null;
  while (ownGeneration === generation) {
    try {
      if (next < 0) {
        const ownTrace = await readOwnTrace(ownGeneration);
        if (!ownTrace || ownGeneration !== generation) return;
        showBook(ownTrace.book, { kind: "live" });
        next = ownTrace.book.newest + 1;
        identity = ownTrace.identity;
      }
      const answer = await fetch(`${PREFIX}/events/packed?from=${next}`);
      if (answer.status === 409) {
        link.value = "off";
        return;
      }
      if (answer.status === 401) {
        link.value = "refused";
        return;
      }
      if (!answer.ok) throw new Error(answer.statusText);
      if (ownGeneration !== generation) return void answer.body.cancel();
      if (identityOf(answer) !== identity) { // events of two clusters must not be mixed
        void answer.body.cancel();
        isReplaced.value = true;
        next = -1;
        continue;
      }
      link.value = "live";
      for await (const arrival of batchesOf(answer.body)) {
        if (ownGeneration !== generation) return;
        lostCount.value += arrival.lost;
        addEvents(arrival.events);
        next = Math.max(next, arrival.events.at(-1).i + 1);
      }
    } catch {
      // The server or the network has failed: try again below.
    }
    if (ownGeneration !== generation) return;
    link.value = "lost";
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/** Show a whole trace: header, events, trailer as JSON lines. False if something else was chosen meanwhile. */
export async function load(answer, kind, ownChoice = newChoice()) {
  if (ownChoice !== choice) return false;
  generation += 1;
  const ownGeneration = generation;
  const book = await readBook(answer, progressOf(ownGeneration));
  readCount.value = 0;
  if (!book || ownGeneration !== generation || ownChoice !== choice) return false;
  showBook(book, kind);
  link.value = "done";
  return true;
}

/** Run a scenario in virtual time, in a process of its own, and show it: to its end unless `paused`. `yaml` is the
 *  text of a story that is not shipped. False if something else was chosen meanwhile. */
export async function play(name, run, takeName, seed = 1, { paused = false, inputs = [], of: lessonPart = "", yaml } = {}) {
  if (source.value.kind === "run") void leaveRun();
  lesson.value = runFile.value = null;
  const ownChoice = newChoice();
  const story = yaml ? { yaml } : { name };
  const startedRun = await post(`/runs?${WAIT}`, { ...story, runs: [run], takes: [takeName], seed, paused: true, inputs, lesson: lessonPart });
  const origin = { kind: "run", id: startedRun.id, name, run, take: takeName, seed, yaml };
  if (!(await showDrivenRun(origin, startedRun, ownChoice))) {
    void endRun(startedRun.id);
    return false;
  }
  chooseView("stage"); // now: at the end of the run the reader may be in another view
  if (paused || !drivenRun.value?.next) return true;
  await command("go", {});
  if (ownChoice !== choice) return false;
  const index = decisive(violations.value);
  if (index !== null) goTo(index); // the violation, not the end of the run, where it is cured
  return true;
}

/** Play the run that a link names, and show the event and the view that the link names. */
export async function repeatRun({ name, run, take: takeName, seed, inputs, step, at: position, view: viewName, partition: tp, other: otherRun }) {
  if (!(await play(name, run, takeName, seed, { paused: step !== undefined, inputs }))) return;
  if (step) await command("go", { steps: step });
  if (otherRun) await compareWith(otherRun);
  batch(() => {
    view.value = viewName;
    partition.value = tp;
  });
  const index = position === undefined ? undefined : indexOf(position);
  if (index !== undefined) goTo(index);
}

/** Play another run of the same story, with the same inputs, beside the run that is shown. Unless it is named,
 *  it is a run with the opposite verdict, preferably the one with transactions v2. */
export async function compareWith(wantedRun) {
  const { name, take: takeName, seed, run: ownRun, yaml } = source.value;
  const ownChoice = choice;
  if (yaml) throw new Error("runs of a story that is not shipped are not compared here: txnsim diff compares their traces");
  const { runs } = (await ask("/scenarios")).find((scenario) => scenario.name === name || scenario.aliases.includes(name));
  const otherRuns = Object.keys(runs).filter((label) => label !== ownRun);
  const unlikeRuns = otherRuns.filter((label) => (runs[label] === "healthy") !== (runs[ownRun] === "healthy"));
  const run = wantedRun ?? (unlikeRuns.includes("TV2") ? "TV2" : (unlikeRuns[0] ?? otherRuns[0]));
  if (!run) throw new Error("this story has one run: there is nothing to compare it with");
  const origin = { kind: "run", name, run, take: takeName, seed };
  const startedRun = await post(`/runs?${WAIT}`, { name, runs: [run], takes: [takeName], seed, inputs: drivenRun.value?.inputs ?? [] });
  if (startedRun.error) throw new Error(startedRun.error);
  const answer = await call(`/runs/${startedRun.id}/trace?${new URLSearchParams({ run, take: takeName })}`);
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  const book = await readBook(answer);
  if (ownChoice !== choice) return;
  const pair = { book, about: { ...origin, id: startedRun.id, verdict: startedRun.runs[0] }, names: [ownRun, run], others: otherRuns };
  alignSteps(pair);
  const { first } = comparison.value;
  if (first) goTo(stepAt(storyNotes()[first.row.left - 1]).to);
}

/** Align the steps of two runs, and find the first that differs. Repeated whenever the shown run goes on. */
function alignSteps(pair) {
  const rows = rowsOf(thisBook(), pair.book);
  comparison.value = { ...pair, rows, first: firstDifference({ ...pair, rows }) };
}

const WAIT = "wait_ms=60000";
const isFailedOrCancelled = (run) => run.state === "failed" || run.state === "cancelled";

/** Show where a driven run stands now. False if something else was chosen meanwhile. */
async function showDrivenRun(origin, run, ownChoice) {
  if (isFailedOrCancelled(run)) throw new Error(run.error ?? "the run was ended");
  const runQuery = new URLSearchParams({ run: origin.run, take: origin.take });
  const answer = await call(`/runs/${origin.id}/trace?${runQuery}`);
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  const partitionBefore = partition.value;
  if (!(await load(answer, { ...origin, verdict: run.runs[0] }, ownChoice))) return false;
  batch(() => {
    partition.value = partitionBefore;
    drivenRun.value = run.at;
    if (comparison.value) alignSteps(comparison.value);
  });
  if (run.at.next) link.value = "paused";
  if (run.at.error) throw new Error(run.at.error);
  return true;
}

/** Send a command to the run that is shown: to go on, to go back, to take an input. */
export async function command(verb, body) {
  const origin = source.value;
  busy.value = true;
  dropQuestion();
  try {
    const ownChoice = choice;
    const run = await post(`/runs/${origin.id}/${verb}?${WAIT}`, body);
    if (ownChoice === choice) await showDrivenRun(origin, run, ownChoice);
  } finally {
    busy.value = false;
  }
}
export const drive = (step) => command("inputs", { step });

/** End the process of the run that was shown. */
export function leaveRun() {
  dropQuestion();
  return endRun(source.value.id);
}
const endRun = (id) => ask(`/runs/${id}`, { method: "DELETE", keepalive: true }).catch(() => null);

/** The document that holds the runs: this page, or a file that was opened in it. */
let runsDocument = document;
/** Unpack what a page in a file holds in the element with this id. */
function readPacked(id) {
  const text = runsDocument.getElementById(id).textContent;
  const bytes = Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

/** Read the list of runs that a page in a file carries, and show the first run. */
export async function unpackRuns() {
  runFile.value = await readPacked("runs").json();
  await showRun(0);
}

/** Open a trace, or a page with its runs, from the reader's disk. */
export async function openFile(file) {
  const ownChoice = newChoice();
  const text = await file.text();
  const report = text.trimStart().startsWith("<") ? new DOMParser().parseFromString(text, "text/html") : null;
  if (source.value.kind === "run") void leaveRun();
  lesson.value = null;
  if (report) {
    if (!report.getElementById("runs")) throw new Error(`${file.name} holds no run`);
    runsDocument = report;
    await unpackRuns();
  } else {
    const { id } = await post("/traces", { name: file.name, trace: text });
    runFile.value = null;
    if (!(await load(new Response(text), { kind: "file", id, title: file.name }, ownChoice))) return;
    const index = decisive(violations.value);
    if (index !== null) goTo(index);
  }
  chooseView("stage");
}

/** Show one of the runs of the file. */
export async function showRun(index) {
  const { title, moments } = runFile.value.runs[index];
  if (!(await load(readPacked(`trace-${index}`), { kind: "file", index, title, moments }))) return;
  const hangingMoment = moments.find((moment) => moment.partitions.some(({ cause }) => cause.startsWith("hanging")));
  const target = decisive(violations.value) ?? (hangingMoment ? indexOf(hangingMoment.at) : null);
  if (target !== null) goTo(target);
}

/** The explanation of an event that the file holds; `moments` are sorted by position. */
function answerOf(moments, event) {
  let low = 0, high = moments.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (moments[mid].at <= event.i) low = mid + 1;
    else high = mid;
  }
  if (low) return { ...moments[low - 1], at: event.i };
  const error = moments.length ? `this file explains events from #${moments[0].at} on` : "this file explains nothing";
  return { at: event.i, partitions: [], open: [], error };
}

/** Ask the server to explain the state of a run after an event. */
export function explainOf(origin, position, signal) {
  const parameters = new URLSearchParams({ at: String(position) });
  const runQuery = origin.kind === "run" ? { of: origin.id, run: origin.run, take: origin.take } : origin.id ? { of: origin.id } : {};
  for (const [name, value] of Object.entries(runQuery)) parameters.set(name, value);
  return ask(`/explain?${parameters}`, { signal });
}

/** Show an explanation; where events arrive by themselves, together with the next drawing. */
function showAnswer(origin, answer, signal) {
  const isStillShown = () => origin === source.value;
  if (signal.aborted || !isStillShown()) return;
  if (cursor.value === null) withNext(() => isStillShown() && (explanation.value = answer));
  else explanation.value = answer;
}

let question = new AbortController();
/** Cancel the open question: the run may lose the event that it is about. */
const dropQuestion = () => question.abort();

/** Explain the event under the cursor. A newer question cancels an older one. */
export async function explain(index) {
  const event = events[index];
  if (!event || busy.value) return; // it is asked again when `busy` ends
  if (source.value.moments) {
    explanation.value = answerOf(source.value.moments, event);
    return;
  }
  dropQuestion();
  question = new AbortController();
  const { signal } = question;
  const origin = source.value;
  const isNewest = cursor.value === null;
  try {
    const answer = await explainOf(origin, event.i, signal);
    showAnswer(origin, { ...answer, isNewest: isNewest && answer.at === event.i }, signal);
  } catch (error) {
    if (count.value) showAnswer(origin, { at: event.i, partitions: [], open: [], error: error.message }, signal);
  }
}
