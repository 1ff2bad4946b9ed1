// @ts-check
// The frame of the page: title, views, notices, inspector, scrubber, keys.

import { render } from "preact";
import { effect, signal } from "@preact/signals";
import { followAddress } from "./address.js";
import { explain, leaveRun, followLiveTrace, openSession, startRecording, showRun, unpackRuns } from "./api.js";
import { html } from "./html.js";
import { KEYS, onKey, toggleOverlay, views } from "./keys.js";
import { SPEEDS, goBySteps, playing, speed, togglePlaying } from "./player.js";
import { isSite, keepFiles, start } from "./site.js";
import { savePng, saveSvg } from "./save.js";
import { decisive, stepAt } from "./stage.js";
import { askedFact, shownIndex, busy, chooseView, count, cursor, isDetailed, isEmbedded, events, explanation, runFile, isFull, goTo, isHelpOpen, indexOf, info, lastIndex, lesson, link, goLive, lostCount, moment, storyNotes, isPresenting, problem, rate, readCount, isReplaced, notice, isShareOpen, shownEvent, source, state, view, violations, causesOf } from "./store.js";
import { Cluster } from "./views/cluster.js";
import { Drive } from "./views/drive.js";
import { Coordinator } from "./views/coordinator.js";
import { Events } from "./views/events.js";
import { Faults } from "./views/faults.js";
import { Lanes } from "./views/lanes.js";
import { Event } from "./views/event.js";
import { Disclosure } from "./views/folded.js";
import { Lesson, Lessons } from "./views/lesson.js";
import { Producers } from "./views/producers.js";
import { Share } from "./views/share.js";
import { Servers, Stage, hasBegun, focusPartition } from "./views/stage.js";
import { Why } from "./views/why.js";
import { Write } from "./views/write.js";
import { Zoo } from "./views/zoo.js";
import { KINDS } from "./meanings.js";
import { WORDS, ms } from "./words.js";

const VIEW_COMPONENTS = { stage: Stage, coordinator: Coordinator, producers: Producers, lanes: Lanes, events: Events, faults: Faults, cluster: Cluster, zoo: Zoo, write: Write };
/** Views that need no recording of the cluster. */
const CLUSTERLESS_VIEWS = ["zoo", "write"];
/** What the help calls keys that print no character. */
const KEY_LABELS = { " ": "Space", ArrowLeft: "←", ArrowRight: "→" };
const LINK_TEXTS = {
  connecting: "connecting …", live: "● live", off: "nothing is recorded", lost: "○ the server does not answer, trying again",
  none: "no run is open", done: "■ recorded run", paused: "❚❚ the run waits", refused: "a token is wanted: open the address that txnsim serve printed",
};

/** Whether the live cluster was never recorded: views would wrongly say that it is empty. */
const hasNoRecording = () => source.value.kind === "live" && link.value === "off" && count.value === 0;

function App() {
  const View = hasNoRecording() && !CLUSTERLESS_VIEWS.includes(view.value) ? NoRecording : VIEW_COMPONENTS[view.value];
  const origin = source.value;
  return html`<button class="skip" onClick=${() => document.querySelector("main > .view").focus()}>Skip to the view</button>
    <header><h1>txnsim</h1><span class="title"><${Title} from=${origin} /></span><span class=${`link-state ${link.value}`} role="status">${LINK_TEXTS[link.value]}</span>
      <${ReadProgress} /><${StartProgress} /><${BackToNow} />
      ${runFile.value && html`<span class="remark">${runFile.value.remark}</span>`}
      ${view.value === "stage" && html`<button id="present" aria-pressed=${isPresenting.value} onClick=${() => (isPresenting.value = !isPresenting.value)} title="The picture as large as the screen, for a projector">Present</button>
        ${(count.value > 0 || isSite) && html`<span id="save">Save picture <button onClick=${saveSvg}>SVG<span class="sr">: save the picture</span></button> <button onClick=${savePng}>PNG<span class="sr">: save the picture</span></button></span>`}`}
      <button id="share" onClick=${() => toggleOverlay(isShareOpen)} aria-expanded=${isShareOpen.value}>Share (s)</button>
      <button onClick=${() => toggleOverlay(isHelpOpen)} aria-expanded=${isHelpOpen.value} aria-label="Keys and words (?)"><span class="long">Keys and words </span>(?)</button></header>
    <nav aria-label="Views">${views().map(([name, label], n) => html`
      <button aria-current=${view.value === name && !isHelpOpen.value && !isShareOpen.value ? "page" : undefined} onClick=${() => chooseView(name)}>${label} <kbd>${n + 1}</kbd></button>`)}</nav>
    <section class="notices" aria-label="Notices">${lesson.value ? view.value !== "stage" && html`<${Lesson} />` : html`<${Drive} />`}${problem.value && html`<p class="problem" role="alert">${problem.value} <button onClick=${() => (problem.value = "")}>Close</button></p>`}
    ${notice.value && html`<p class="gap" id="said" role="status">${notice.value} <button onClick=${() => (notice.value = "")}>Close</button></p>`}
    ${!askedFact.value && html`<${JudgesFindings} />`}
    <${Gaps} /></section>
    <main class=${isPast() ? "past" : ""}>${isShareOpen.value ? html`<${Share} />` : isHelpOpen.value ? html`<${Help} />` : html`<section class="view" tabindex="0" aria-label=${view.value}><${View} /></section>`}<${Inspector} /></main>
    <${Scrubber} />`;
}

/** What the judges found, in one box; each finding has a link to its place on the tape. */
function JudgesFindings() {
  const byFinding = new Map(violations.value.map((violation) => [`${violation.d.rule} ${violation.d.found}`, violation])); // a finding is there twice: before the cure and after it
  if (!byFinding.size) return null;
  return html`<div class="problem">✖ The judges found ${[...byFinding.values()].map((violation, n) => html`${n > 0 && "; "}<b>${violation.d.rule}</b>: ${violation.d.found} <button
    class="link" onClick=${() => goTo(decisive([violation]) ?? indexOf(violation.i))}>see it<span class="sr">: ${violation.d.rule}</span></button>`)}</div>`;
}

/** Whether the shown event is not the newest. */
const isPast = () => cursor.value !== null && shownIndex.value < count.value - 1;

/** A button that names the shown step or event, where it is not the newest, and leads back to the newest. */
function BackToNow() {
  if (!isPast()) return null;
  const step = stepAt(shownIndex.value);
  return html`<button id="past" class="past-of" onClick=${goLive}>You look at ${step ? `step ${step.number}` : `event #${events[shownIndex.value].i}`}. Back to now (l)</button>`;
}

/** Notices of what the page can't show, why, and what can be done about it. */
function Gaps() {
  const isLive = source.value.kind === "live";
  const { first = 0, level } = info.value;
  if (isLive && link.value === "off") {
    return html`<p class="problem" id="off">Recording is off, so the page can't show what happens. ${count.value > 0 ? `What was recorded before ends at #${events[count.value - 1].i}. ` : ""}
      <button class="primary" onClick=${startRecording}>Record from now on</button></p>`;
  }
  return html`
    ${isLive && link.value === "lost" && html`<p class="problem" id="gone">The server does not answer: it has ended, or can't be reached. You see its last state. The page tries again.</p>`}
    ${isLive && isReplaced.value && html`<p class="gap" id="replaced">Another cluster answers here now. What you see is its own, from its beginning. <button onClick=${() => (isReplaced.value = false)}>Close</button></p>`}
    ${first > 0 && html`<p class="gap" id="gap">What happened before event #${first} is no longer kept: the recording begins there with a snapshot of the cluster.
      ${isLive && html` The server keeps the newest events; the setting <code>trace_ring_bytes</code> makes it keep more.`}</p>`}
    ${isFull.value && html`<p class="gap" id="full">The page holds ${count.value.toLocaleString("en")} events and takes no more. ${isLive && html`<button onClick=${() => followLiveTrace()}>Begin anew with what the server keeps</button>`}</p>`}
    ${lostCount.value > 0 && html`<p class="gap" id="lost">The page could not keep up: ${lostCount.value.toLocaleString("en")} events are missing, so what it shows may be wrong. <button onClick=${() => followLiveTrace()}>Read again what the server keeps</button></p>`}
    ${level === "off" && !isLive && html`<p class="gap">Nothing was recorded in this run.</p>`}`;
}

/** Shown in place of the views of a cluster that was never recorded. */
function NoRecording() {
  return html`<section class="why" id="unrecorded"><h2>What is on this cluster is not known here</h2>
    <p>The page shows what is recorded, and nothing was. A recording begins with what there is then: topics, brokers, rules,
      and transactions that are open or hang.</p>
    <p>Without one, ask the brokers: <code>txnsim txns --bootstrap-server <${Servers} /> find-hanging --all</code></p>
    <h2>Or learn how it works, in ten minutes</h2><p><${Lessons} /></p></section>`;
}

/** How far a long trace has been read. A component of its own, so that nothing else is redrawn for it. */
const ReadProgress = () => readCount.value > 0 && html`<span role="status">reading, ${readCount.value.toLocaleString("en")} events so far …</span>`;

/** How far the start of the simulator in the browser has come, or why it failed. */
const startProgress = signal("");
const StartProgress = () => startProgress.value && html`<span id="starting" role="status">${startProgress.value}</span>`;

function Title({ from: origin }) {
  if (origin.kind === "site") return "transactions of Kafka, simulated in this browser";
  if (origin.kind === "run") return `${origin.name} · ${origin.run} · ${origin.take} · seed ${origin.seed}`;
  if (origin.kind !== "file") return "this cluster";
  if (!runFile.value) return origin.title ?? "reading …";
  const { runs } = runFile.value;
  if (runs.length === 1) return origin.title;
  return html`<label>Run <select id="run" value=${origin.index} onChange=${(e) => showRun(Number(e.target.value))}>
    ${runs.map((run, n) => html`<option value=${n}>${run.title}</option>`)}</select></label>`;
}

/** Whether the stage shows its first screen. The inspector then hides events of the cluster's own start. */
const isStageEmpty = () => view.value === "stage" && source.value.kind === "live" && cursor.value === null && !hasBegun(state.value.now);

/** On a small screen the inspector is a sheet at the bottom; this tells whether it is up. */
const isSheetUp = signal(false);

function Inspector() {
  const event = shownEvent.value;
  void count.value;
  if (!event || isStageEmpty()) return html`<aside aria-label="Event"><h2>No event yet</h2><p class="hint">${hasNoRecording() ? "Nothing is recorded." : isSite ? "Open a run of the Zoo, or a lesson." : "Point a client at this cluster, make a transaction hang on the stage, or open a run of the Zoo."}</p></aside>`;
  const chain = causesOf(event).slice(1);
  const [earlierCause] = (chain.at(-1) ?? event).p; // a cause that is no longer kept, or too far back to follow
  const tp = view.value === "stage" && !isHelpOpen.value && !isShareOpen.value ? focusPartition(moment.value.now, explanation.value?.open ?? []) : null;
  return html`<aside aria-label="Event" class=${isSheetUp.value ? "up" : ""}><button id="sheet" aria-expanded=${isSheetUp.value} onClick=${() => (isSheetUp.value = !isSheetUp.value)}>${tp ? "Why, and this event" : "This event"}</button>${tp && html`<${Why} tp=${tp} />`}
    ${!askedFact.value && html`<${Disclosure} id="event" label=${`Details of event #${event.i}`}>
    <h2>#${event.i} ${event.k}</h2>${KINDS[event.k] && html`<p class="hint">${KINDS[event.k]}</p>`}<p><code>${event.node}</code><br />${ms(event)}${event.tx ? html`<br />${event.tx}` : ""}</p>
    <table><tbody>${Object.entries(event.d ?? {}).sort().map(([name, value]) => html`<tr><th scope="row">${name}</th>
      <td>${typeof value === "object" ? JSON.stringify(value) : String(value)}</td></tr>`)}</tbody></table>
    <h3>Where does it come from?</h3>
    ${chain.length === 0 && earlierCause === undefined ? html`<p class="hint">It is a root: nothing in the trace caused it.</p>`
      : html`<ol class="chain">${chain.map((cause) => html`<li><${Event} i=${cause.i} /> <small>${cause.node}</small></li>`)}
        ${earlierCause !== undefined && html`<li>And so on, from <${Event} i=${earlierCause} /></li>`}</ol>`}<//>`}
  </aside>`;
}

/** At most so many steps of a story are marked on the time line. */
const STEPS_MAX = 60;

function Scrubber() {
  const newest = Math.max(0, count.value - 1);
  const event = events[shownIndex.value];
  const steps = storyNotes().length;
  const position = event ? `#${event.i} / ${events[newest].i} · ${ms(event)}` : "no events";
  return html`<footer>
    ${!steps || isDetailed.value ? html`<button onClick=${() => goTo(0)} aria-label="first event">|◀</button>
    <button onClick=${() => goTo(shownIndex.value - 1)} aria-label="previous event">◀</button>
    <button onClick=${() => goTo(shownIndex.value + 1)} aria-label="next event">▶</button>
    <button onClick=${() => goTo(lastIndex())} aria-label="last event">▶|</button>` : ""}
    ${steps > 0 && html`<button id="step-back" onClick=${() => goBySteps(-1)}>◀ step</button>`}
    <button id="play" class=${steps ? "primary" : ""} aria-pressed=${playing.value} onClick=${togglePlaying} title="Play, or stand still (Space)">${playing.value ? "❚❚ stop" : steps ? "▶ play by steps" : "▶ play"}</button>
    ${steps > 0 && html`<button id="step-on" onClick=${() => goBySteps(1)}>step ▶</button>`}
    <label class="speed"><span class="sr">Speed</span><select id="speed" value=${speed.value} onChange=${(e) => (speed.value = Number(e.target.value))}>${SPEEDS.map((factor) => html`<option value=${factor}>${factor}×</option>`)}</select></label>
    <span class="line"><input id="time" type="range" min="0" max=${newest} ref=${(el) => { if (el) el.value = Math.max(0, shownIndex.value); }} aria-label="time"
      aria-valuetext=${event ? `event ${event.i}: ${KINDS[event.k] ?? event.k}` : "no event"} onInput=${(e) => goTo(Number(e.target.value))} />
      ${storyNotes().slice(-STEPS_MAX).map((index, n, noteIndices) => {
        const to = (noteIndices[n + 1] ?? count.value) - 1;
        return html`<i aria-hidden="true" class=${`step${to <= shownIndex.value ? " passed" : ""}`} title=${events[index].d.text} style=${{ "--part": to / Math.max(1, newest) }} onClick=${() => goTo(to)}></i>`;
      })}</span>
    ${steps > 0 && html`<span class="step-of" title=${position}>step ${stepAt(shownIndex.value)?.number ?? 0} of ${steps}</span>`}
    ${(!steps || isDetailed.value) && html`<span class="where">${position}</span>`}
    ${rate.value > 0 && html`<span id="rate" class="where">${rate.value.toLocaleString("en")} events/s</span>`}
    ${source.value.kind === "live" && cursor.value === null && html`<button id="pause" onClick=${() => goTo(shownIndex.value)} title="Stand still at this event; more go on coming">Pause</button>`}
    <button id="live" aria-pressed=${cursor.value === null} onClick=${goLive} title="Stay at the newest event">Now</button></footer>`;
}

function Help() {
  return html`<section class="view help" tabindex="0" aria-label="Keys and words"><div class="sides">
    <div><h2>Keys</h2><dl>${KEYS.map(([key, purpose]) => html`<dt><kbd>${KEY_LABELS[key] ?? key}</kbd></dt><dd>${purpose}</dd>`)}</dl></div>
    <div><h2>Words</h2><dl class="words">${Object.entries(WORDS).map(([word, meaning]) => html`<dt>${word}</dt><dd>${meaning}</dd>`)}</dl></div></div></section>`;
}

/** The server is asked to explain an event once the cursor has rested for REST_MS. Where events keep arriving, the
 *  pause is RESTS times as long as the last answer took, so that the server is busy for a part of the time only. */
const REST_MS = 120, RESTS = 3;
let timer = 0, askedMs = 0, tookMs = 0;
const lateArrivals = signal(0); // rises when the shown event has changed while the server was asked
effect(() => {
  const index = shownIndex.value;
  void [source.value, busy.value, lateArrivals.value];
  if (source.value.moments) return void explain(index); // the file holds the explanation
  if (timer && cursor.value === null) return; // the pending question will be about the newest event
  clearTimeout(timer);
  const wait = Math.max(REST_MS, cursor.value === null ? askedMs + RESTS * tookMs - performance.now() : 0);
  const ownTimer = setTimeout(async () => {
    askedMs = performance.now();
    await explain(cursor.value === null ? lastIndex() : index);
    if (timer === ownTimer) timer = 0;
    tookMs = performance.now() - askedMs;
    if (cursor.value === null && shownIndex.value !== index) lateArrivals.value += 1;
  }, wait);
  timer = ownTimer;
});

/** Start the simulator in the browser. Once it runs, the files are kept for visits without a network. */
function startSimulator() {
  start(
    (progress) => {
      startProgress.value = progress;
      if (!progress) void keepFiles();
    },
    (reason) => {
      startProgress.value = "";
      problem.value = `The simulator can't run in this browser: ${reason}. It needs WebAssembly and workers with modules.`;
    },
  );
}

effect(() => {
  document.body.classList.toggle("presented", isPresenting.value && view.value === "stage");
});
document.body.classList.toggle("embedded", isEmbedded);
addEventListener("keydown", onKey);
// A page that is closed ends its run: the process would wait in vain.
addEventListener("pagehide", () => {
  if (source.value.kind === "run") void leaveRun();
});
addEventListener("pageshow", (event) => {
  if (event.persisted && source.value.kind === "run") void followLiveTrace(); // the page came back, but its run has ended
});
render(html`<${App} />`, document.getElementById("app"));
const runs = document.getElementById("runs");
if (runs) await unpackRuns();
else if (isSite) startSimulator();
else await openSession();
globalThis.__ready = performance.now();
if (!runs) {
  const isLive = !/[#&](run|lesson)=/.test(location.hash);
  if (isLive) void followLiveTrace();
  await followAddress();
  if (!isLive && source.value.kind === "live" && !lesson.value) void followLiveTrace(); // what the address names can't be shown
}
