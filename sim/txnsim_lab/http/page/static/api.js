// @ts-check
// The control port: the session, the stream of events, questions and actions.

import { batch } from "@preact/signals";
import { Book, readBook } from "./book.js";
import { batchesOf } from "./rows.js";
import { asked, busy, choose, compared, count, cursor, driven, events, explained, filed, go, indexOf, lesson, link, live, lost, notes, partition, problem, put, reading, replaced, said, source, take, view, violations, withNext } from "./store.js";
import { firstDifference, rowsOf } from "./compare.js";
import { decisive, stepAt } from "./stage.js";
import { isSite, reach } from "./site.js";

const PREFIX = "/api/v1";
const RETRY_MS = 1000;
/** From so many events on a trace takes its time, and the page says how far it is. */
const SHOWN_FROM = 20_000;
const SHOWN_MS = 200;
/** Counts what is shown, or read to be shown. */
let generation = 0;
/** Counts what the reader chose to see: an answer that is late for an earlier choice is not shown. A live trace
 *  goes on until what was chosen is there. */
let choice = 0;
const chosen = () => (choice += 1);

/** Trade the token behind # for a cookie; it reaches no log and leaves the address bar. */
export async function open() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) {
    await fetch(`${PREFIX}/session`, { method: "POST", headers: { Authorization: `Bearer ${found}` } });
    const rest = new URLSearchParams(location.hash.slice(1));
    rest.delete("token");
    history.replaceState(null, "", location.pathname + (rest.size ? `#${rest}` : ""));
  }
}

/** The control port, or what stands for it in the browser. */
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

/** Save an answer to a question as a file. */
export const save = (path, name) =>
  act(async () => {
    const answer = await call(path);
    if (!answer.ok) throw new Error((await answer.json()).error);
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(await answer.blob()), download: name });
    link.click();
    URL.revokeObjectURL(link.href);
  });

/** Do something, and show why it did not work where it did not. */
export async function act(doing) {
  try {
    problem.value = said.value = "";
    return await doing();
  } catch (error) {
    problem.value = error.message;
    return null;
  }
}

/** Do something to what there is now, and say what was done: `what` is a sentence, or makes one of the answer. */
export const doNow = (doing, what) => {
  live(); // whatever is done is done now
  return act(async () => {
    const answer = await doing();
    said.value = typeof what === "string" ? what : what(answer);
  });
};

export const record = () =>
  act(async () => {
    await post("/trace", { level: "brief" });
    await listen();
  });

/** Whether nothing else was asked to be shown meanwhile. */
const progressOf = (mine) => {
  let shownMs = 0;
  return (so) => {
    const now = performance.now();
    if (so > SHOWN_FROM && now - shownMs > SHOWN_MS) [reading.value, shownMs] = [so, now];
    return mine === generation;
  };
};

/** Which trace an answer is of: a cluster that was started anew has another one. */
const identityOf = (answer) => answer.headers.get("Txnsim-Trace");

/** The cluster's own trace as far as it is kept, and which one it is; null where it is no more wanted. */
async function kept(mine) {
  const answer = await fetch(`${PREFIX}/trace`);
  if (answer.status === 401) {
    link.value = "refused";
    return null;
  }
  if (!answer.ok) throw new Error(answer.statusText);
  const book = await readBook(answer, progressOf(mine));
  reading.value = 0;
  return book && { book, identity: identityOf(answer) };
}

/** Follow the cluster's own trace, from its first event that is kept; again after each break. */
export async function listen() {
  if (source.value.kind === "run") void leave();
  lesson.value = filed.value = null;
  chosen();
  generation += 1;
  const mine = generation;
  if (isSite) { // no cluster is there to be followed
    put(new Book(), { kind: "site" });
    link.value = "none";
    choose("stage");
    return;
  }
  link.value = "connecting";
  put(new Book(), { kind: "live" });
  let next = -1; // nothing was read yet
  let identity = null;
  while (mine === generation) {
    try {
      if (next < 0) {
        const found = await kept(mine);
        if (!found || mine !== generation) return;
        put(found.book, { kind: "live" });
        next = found.book.newest + 1;
        identity = found.identity;
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
      if (mine !== generation) return void answer.body.cancel();
      if (identityOf(answer) !== identity) { // nothing of two clusters is ever joined
        void answer.body.cancel();
        replaced.value = true;
        next = -1;
        continue;
      }
      link.value = "live";
      for await (const some of batchesOf(answer.body)) {
        if (mine !== generation) return;
        lost.value += some.lost;
        take(some.events);
        next = Math.max(next, some.events.at(-1).i + 1);
      }
    } catch {
      // The server went away, or the network did: try again below.
    }
    if (mine !== generation) return;
    link.value = "lost";
    await new Promise((done) => setTimeout(done, RETRY_MS));
  }
}

/** Show a whole trace: header, events, trailer as JSON lines. False: there is a newer choice, or trace, by now. */
export async function load(answer, kind, ours = chosen()) {
  if (ours !== choice) return false;
  generation += 1;
  const mine = generation;
  const book = await readBook(answer, progressOf(mine));
  reading.value = 0;
  if (!book || mine !== generation || ours !== choice) return false;
  put(book, kind);
  link.value = "done";
  return true;
}

/** Run a scenario in virtual time, in a process of its own, and look at it; to its end unless paused. One of
 *  the reader's own has its text. False: something else was chosen meanwhile. */
export async function play(name, run, take_, seed = 1, { paused = false, inputs = [], of = "", yaml } = {}) {
  if (source.value.kind === "run") void leave();
  lesson.value = filed.value = null;
  const mine = chosen();
  const which = yaml ? { yaml } : { name };
  const begun = await post(`/runs?${WAIT}`, { ...which, runs: [run], takes: [take_], seed, paused: true, inputs, lesson: of });
  const about = { kind: "run", id: begun.id, name, run, take: take_, seed, yaml };
  if (!(await follow(about, begun, mine))) {
    void endRun(begun.id);
    return false;
  }
  choose("stage"); // now, not at its end: by then somebody may look at something else
  if (paused || !driven.value?.next) return true;
  await command("go", {});
  if (mine !== choice) return false;
  const found = decisive(violations.value);
  if (found !== null) go(found); // where there is something to see, not at the healed end
  return true;
}

/** Play the run that a link names, up to where it was. */
export async function repeat({ name, run, take: take_, seed, inputs, step, at, view: shown_, partition: place, other }) {
  if (!(await play(name, run, take_, seed, { paused: step !== undefined, inputs }))) return;
  if (step) await command("go", { steps: step });
  if (other) await beside(other);
  batch(() => {
    view.value = shown_;
    partition.value = place;
  });
  const index = at === undefined ? undefined : indexOf(at);
  if (index !== undefined) go(index);
}

/** Play another run of the same story, with the same inputs, and show it beside the one that is shown; which
 *  one, unless it is named: one whose verdict is of the other kind, with transactions v2 if it can be. */
export async function beside(wanted) {
  const { name, take: take_, seed, run: own, yaml } = source.value;
  const mine = choice;
  if (yaml) throw new Error("runs of a story that is not shipped are not compared here: txnsim diff compares their traces");
  const { runs } = (await ask("/scenarios")).find((one) => one.name === name || one.aliases.includes(name));
  const others = Object.keys(runs).filter((one) => one !== own);
  const unlike = others.filter((one) => (runs[one] === "healthy") !== (runs[own] === "healthy"));
  const run = wanted ?? (unlike.includes("TV2") ? "TV2" : (unlike[0] ?? others[0]));
  if (!run) throw new Error("this story has one run: there is nothing to compare it with");
  const about = { kind: "run", name, run, take: take_, seed };
  const begun = await post(`/runs?${WAIT}`, { name, runs: [run], takes: [take_], seed, inputs: driven.value?.inputs ?? [] });
  if (begun.error) throw new Error(begun.error);
  const answer = await call(`/runs/${begun.id}/trace?${new URLSearchParams({ run, take: take_ })}`);
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  const book = await readBook(answer);
  if (mine !== choice) return;
  const both = { book, about: { ...about, id: begun.id, verdict: begun.runs[0] }, names: [own, run], others };
  laidOut(both);
  const { first } = compared.value;
  if (first) go(stepAt(notes()[first.row.left - 1]).to);
}

/** Steps side by side, and where they differ: anew when the run that is shown has gone on. */
function laidOut(both) {
  const rows = rowsOf(asked(), both.book);
  compared.value = { ...both, rows, first: firstDifference({ ...both, rows }) };
}

const WAIT = "wait_ms=60000";
const over = (run) => run.state === "failed" || run.state === "cancelled";

/** Show where a driven run stands now. False: something else was chosen meanwhile. */
async function follow(about, run, mine) {
  if (over(run)) throw new Error(run.error ?? "the run was ended");
  const where = new URLSearchParams({ run: about.run, take: about.take });
  const answer = await call(`/runs/${about.id}/trace?${where}`);
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  const before = partition.value;
  if (!(await load(answer, { ...about, verdict: run.runs[0] }, mine))) return false;
  batch(() => {
    partition.value = before;
    driven.value = run.at;
    if (compared.value) laidOut(compared.value);
  });
  if (run.at.next) link.value = "paused";
  if (run.at.error) throw new Error(run.at.error);
  return true;
}

/** Tell the run that is shown to go on, to do something, to go back. */
export async function command(verb, body) {
  const about = source.value;
  busy.value = true;
  hush();
  try {
    const mine = choice;
    const run = await post(`/runs/${about.id}/${verb}?${WAIT}`, body);
    if (mine === choice) await follow(about, run, mine);
  } finally {
    busy.value = false;
  }
}
export const drive = (step) => command("inputs", { step });

/** The run that was shown is not needed any more: its process ends. */
export function leave() {
  hush();
  return endRun(source.value.id);
}
const endRun = (id) => ask(`/runs/${id}`, { method: "DELETE", keepalive: true }).catch(() => null);

/** The document that holds runs: this page, or a file that was opened in it. */
let holder = document;
/** What a page in a file holds under a name, packed. */
function unpacked(id) {
  const text = holder.getElementById(id).textContent;
  const bytes = Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

/** A page in a file carries its runs: show the first. */
export async function unpack() {
  filed.value = await unpacked("runs").json();
  await show(0);
}

/** Open a trace, or a run in one file, that the reader has on disk. */
export async function openFile(file) {
  const mine = chosen();
  const text = await file.text();
  const report = text.trimStart().startsWith("<") ? new DOMParser().parseFromString(text, "text/html") : null;
  if (source.value.kind === "run") void leave();
  lesson.value = null;
  if (report) {
    if (!report.getElementById("runs")) throw new Error(`${file.name} holds no run`);
    holder = report;
    await unpack();
  } else {
    const { id } = await post("/traces", { name: file.name, trace: text });
    filed.value = null;
    if (!(await load(new Response(text), { kind: "file", id, title: file.name }, mine))) return;
    const found = decisive(violations.value);
    if (found !== null) go(found);
  }
  choose("stage");
}

/** One of the runs of the file. */
export async function show(index) {
  const { title, moments } = filed.value.runs[index];
  if (!(await load(unpacked(`trace-${index}`), { kind: "file", index, title, moments }))) return;
  const first = moments.find((one) => one.partitions.some(({ cause }) => cause.startsWith("hanging")));
  const found = decisive(violations.value) ?? (first ? indexOf(first.at) : null);
  if (found !== null) go(found);
}

/** What was worked out beforehand for the event under the cursor. */
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

/** What the server's reader says of a run after an event. */
export function explainOf(from, position, signal) {
  const where = new URLSearchParams({ at: String(position) });
  const named = from.kind === "run" ? { of: from.id, run: from.run, take: from.take } : from.id ? { of: from.id } : {};
  for (const [name, value] of Object.entries(named)) where.set(name, value);
  return ask(`/explain?${where}`, { signal });
}

/** Show an answer: with what else is drawn, where events come by themselves. */
function tell(from, answer, signal) {
  const isOf = () => from === source.value;
  if (signal.aborted || !isOf()) return;
  if (cursor.value === null) withNext(() => isOf() && (explained.value = answer));
  else explained.value = answer;
}

let question = new AbortController();
/** Nobody wants the answer any more: the run may lose the event that was asked about. */
const hush = () => question.abort();

/** What the server's reader says of the event under the cursor; the newest question wins. */
export async function explain(index) {
  const event = events[index];
  if (!event || busy.value) return; // once it is no longer busy, it is asked again
  if (source.value.moments) {
    explained.value = answerOf(source.value.moments, event);
    return;
  }
  hush();
  question = new AbortController();
  const { signal } = question;
  const from = source.value;
  const isNewest = cursor.value === null;
  try {
    const answer = await explainOf(from, event.i, signal);
    tell(from, { ...answer, isNewest: isNewest && answer.at === event.i }, signal);
  } catch (error) {
    if (count.value) tell(from, { at: event.i, partitions: [], open: [], error: error.message }, signal);
  }
}
