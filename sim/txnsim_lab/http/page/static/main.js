// @ts-check
// The frame of the page: title, views, notices, inspector, scrubber, keys.

import { render } from "preact";
import { effect, signal } from "@preact/signals";
import { followAddress } from "./address.js";
import { isRunLinked, explainEvent, showKeptExplanation, leaveRun, followLiveTrace, followPresent, openSession, startRecording, showRunOfFile, showPackedRuns } from "./api.js";
import { html } from "./html.js";
import { KEY_BINDINGS, VIEW_TITLES, onKey, toggleOverlay, availableViews } from "./keys.js";
import { PLAY_SPEEDS, chooseEvent, playSpeed } from "./player.js";
import { isSite, keepFilesOffline, startWorker } from "./site.js";
import { savePng, saveSvg } from "./save.js";
import { hasUserData, stepAt } from "./stage.js";
import { askedFact, comparison, shownIndex, isRunBusy, chooseView, eventCount, cursorIndex, isDetailed, isEmbedded, isHangAwaited, isLearnersTask, events, explanation, runFile, isTraceFull, goToEvent, isHelpOpen, indexOfPosition, traceHeader, newestEventIndex, lesson, connectionState, goToNewest, lostEventCount, judgedMoment, storyNotes, isPresenting, problemText, eventRate, readEventCount, isClusterReplaced, noticeText, isShareOpen, shownEvent, traceOrigin, shownState, shownView, findings, shownCausesOf } from "./store.js";
import { Cluster } from "./views/cluster.js";
import { Drive } from "./views/drive.js";
import { Coordinator } from "./views/coordinator.js";
import { Events } from "./views/events.js";
import { Faults } from "./views/faults.js";
import { Lanes } from "./views/lanes.js";
import { EventLink } from "./views/event.js";
import { Disclosure } from "./views/folded.js";
import { Lesson, Lessons } from "./views/lesson.js";
import { PartitionTable } from "./views/partitions.js";
import { Producers } from "./views/producers.js";
import { Share } from "./views/share.js";
import { BootstrapAddress, Stage, focusedPartitionOf } from "./views/stage.js";
import { StepControls, hasStoryBelowPicture } from "./views/story.js";
import { VerdictBar } from "./views/verdict.js";
import { Why } from "./views/why.js";
import { Write } from "./views/write.js";
import { Zoo } from "./views/zoo.js";
import { KIND_MEANINGS } from "./meanings.js";
import { TAKE_NAMES, WORD_MEANINGS, millisecondsText, runName } from "./words.js";

const VIEW_COMPONENTS = { stage: Stage, coordinator: Coordinator, producers: Producers, lanes: Lanes, events: Events, faults: Faults, cluster: Cluster, zoo: Zoo, write: Write };
/** Views that need no recording of the cluster. */
const CLUSTERLESS_VIEWS = ["zoo", "write"];
/** Views that may be seen while a lesson's question is open: the stage leaves out what would answer it. */
const QUESTION_VIEWS = ["stage", ...CLUSTERLESS_VIEWS];
const HiddenView = () => html`<section class="why" id="hidden-view"><h2>First the question: what do you think?</h2><p>This view would answer it. It opens when you have said what you expect.</p></section>`;
/** What the help calls keys that print no character. */
const KEY_LABELS = { " ": "Space", ArrowLeft: "←", ArrowRight: "→" };
/** Whether the live cluster was never recorded: views would wrongly say that it is empty. */
const hasNoRecording = () => traceOrigin.value.kind === "live" && connectionState.value === "off" && eventCount.value === 0;

function App() {
  const ShownView = askedFact.value && !QUESTION_VIEWS.includes(shownView.value) ? HiddenView : hasNoRecording() && !CLUSTERLESS_VIEWS.includes(shownView.value) ? NoRecording : VIEW_COMPONENTS[shownView.value];
  const shownOrigin = traceOrigin.value;
  return html`<button class="skip" onClick=${() => document.querySelector("main > .view:not([hidden])").focus()}>Skip to the view</button>
    <header><h1>txnsim</h1><span class="title" title=${askedFact.value || isLearnersTask.value ? undefined : shownOrigin.title}><${Title} from=${shownOrigin} /></span><${ReadProgress} /><${SimulatorProgress} /><${BackToNow} />
      ${runFile.value && html`<span class="remark">${runFile.value.remark}</span>`}
      ${shownView.value === "stage" && html`<button id="present" aria-pressed=${isPresenting.value} onClick=${() => (isPresenting.value = !isPresenting.value)} title="The picture as large as the screen, for a projector">Present</button>
        ${(eventCount.value > 0 || isSite) && html`<span id="save">Save picture <button onClick=${saveSvg}>SVG<span class="sr">: save the picture</span></button> <button onClick=${savePng}>PNG<span class="sr">: save the picture</span></button></span>`}`}
      <button id="share" onClick=${() => toggleOverlay(isShareOpen)} aria-expanded=${isShareOpen.value}>Share (s)</button>
      <button onClick=${() => toggleOverlay(isHelpOpen)} aria-expanded=${isHelpOpen.value} aria-label="Help (?)"><span class="long">Help </span>(?)</button></header>
    <nav aria-label="Views" onKeyDown=${moveAlongTabs}>${availableViews().map(([name, label], n) => html`
      <button title=${`Key ${n + 1}`} aria-keyshortcuts=${n + 1} aria-current=${shownView.value === name && !isHelpOpen.value && !isShareOpen.value ? "page" : undefined} onClick=${() => chooseView(name)}>${label}</button>`)}</nav>
    <${VerdictBar} />
    <section class="notices" aria-label="Notices">${lesson.value ? shownView.value !== "stage" && html`<${Lesson} />` : html`<${Drive} />`}${problemText.value && html`<p class="problem" role="alert">${problemText.value} <button onClick=${() => (problemText.value = "")}>Close</button></p>`}
    ${noticeText.value && html`<p class="gap" id="said" role="status">${noticeText.value} <button onClick=${() => (noticeText.value = "")}>Close</button></p>`}
    ${!askedFact.value && !comparison.value && html`<${JudgesFindings} />`}
    <${GapNotices} /></section>
    <main class=${isBeforeNewest() ? "past" : ""}>${isShareOpen.value ? html`<${Share} />` : isHelpOpen.value && html`<${Help} />`}<section class="view" data-view=${shownView.value} tabindex="0" hidden=${isHelpOpen.value || isShareOpen.value} aria-label=${VIEW_TITLES.find(([name]) => name === shownView.value)[1]}><${ShownView} /></section><${Inspector} /></main>
    <${Scrubber} />`;
}

/** The arrow keys go along the names of the views, not through the story. */
function moveAlongTabs(event) {
  const neighbour = { ArrowLeft: "previousElementSibling", ArrowRight: "nextElementSibling" }[event.key];
  if (!neighbour) return;
  event.stopPropagation();
  event.target[neighbour]?.focus();
}

/** What the judges found, in one box; each finding has a link to its place on the tape. */
function JudgesFindings() {
  if (!findings.value.length) return null;
  return html`<div class="problem">✖ The judges found ${findings.value.map(({ rule, found, at, shown_by: shownBy }, n) => html`${n > 0 && "; "}<b>${rule}</b>: ${found} <button
    class="link" onClick=${() => goToEvent(indexOfPosition(shownBy ?? at))}>see it<span class="sr">: ${rule}</span></button>`)}</div>`;
}

/** Whether the shown event is not the newest. */
const isBeforeNewest = () => cursorIndex.value !== null && !isHangAwaited.value && shownIndex.value < eventCount.value - 1;

/** A button that names the shown step or event, where it is not the newest, and leads back to the newest. */
function BackToNow() {
  if (!isBeforeNewest()) return null;
  const shownStep = stepAt(shownIndex.value);
  return html`<button id="past" class="past-of" onClick=${goToNewest}><span class="long">${shownStep ? `Step ${shownStep.number}` : `Event #${events[shownIndex.value].i}`} is shown. </span>Back to now<span class="long"> (l)</span></button>`;
}

/** Notices of what the page can't show, why, and what can be done about it. */
function GapNotices() {
  const isLive = traceOrigin.value.kind === "live";
  const { first = 0, level } = traceHeader.value;
  if (isLive && connectionState.value === "off") {
    return html`<p class="problem" id="off">Recording is off, so the page can't show what happens. ${eventCount.value > 0 ? `What was recorded before ends at #${events[eventCount.value - 1].i}. ` : ""}
      <button class="primary" onClick=${startRecording}>Record from now on</button></p>`;
  }
  return html`
    ${isLive && connectionState.value === "lost" && html`<p class="problem" id="gone">The server does not answer: it has ended, or can't be reached. You see its last state. The page tries again.</p>`}
    ${isLive && isClusterReplaced.value && html`<p class="gap" id="replaced">Another cluster answers here now. What you see is its own, from its beginning. <button onClick=${() => (isClusterReplaced.value = false)}>Close</button></p>`}
    ${first > 0 && html`<p class="gap" id="gap">What happened before event #${first} is no longer kept: the recording begins there with a snapshot of the cluster.
      ${isLive && html` The server keeps the newest events; the setting <code>trace_ring_bytes</code> makes it keep more.`}</p>`}
    ${isTraceFull.value && html`<p class="gap" id="full">The page holds ${eventCount.value.toLocaleString("en")} events and takes no more. ${isLive && html`<button onClick=${() => followLiveTrace()}>Begin anew with what the server keeps</button>`}</p>`}
    ${lostEventCount.value > 0 && html`<p class="gap" id="lost">The page could not keep up: ${lostEventCount.value.toLocaleString("en")} events are missing, so what it shows may be wrong. <button onClick=${() => followLiveTrace()}>Read again what the server keeps</button></p>`}
    ${level === "off" && !isLive && html`<p class="gap">Nothing was recorded in this run.</p>`}`;
}

/** Shown in place of the views of a cluster that was never recorded. */
function NoRecording() {
  return html`<section class="why" id="unrecorded"><h2>What is on this cluster is not known here</h2>
    <p>The page shows what is recorded, and nothing was. A recording begins with what there is then: topics, brokers, rules,
      and transactions that are open or hang.</p>
    <p>Without one, ask the brokers: <code>txnsim txns --bootstrap-server <${BootstrapAddress} /> find-hanging --all</code></p>
    <h2>Or learn how it works</h2><${Lessons} /></section>`;
}

/** How far a long trace has been read. A component of its own, so that nothing else is redrawn for it. */
const ReadProgress = () => readEventCount.value > 0 && html`<span role="status">reading, ${readEventCount.value.toLocaleString("en")} events so far …</span>`;

/** How far the start of the simulator in the browser has come, or why it failed. */
const simulatorProgress = signal("");
const SimulatorProgress = () => simulatorProgress.value && html`<span id="starting" role="status">${simulatorProgress.value}</span>`;

function Title({ from: shownOrigin }) {
  if (shownOrigin.kind === "site") return "Kafka transactions, simulated in this browser";
  if (shownOrigin.kind === "run") return [isLearnersTask.value ? `lesson ${lesson.value.id}` : askedFact.value ? "" : shownOrigin.title, runName(shownOrigin.run), ...(shownOrigin.take === "armed" ? [] : [TAKE_NAMES[shownOrigin.take]]), ...(shownOrigin.seed === 1 ? [] : [`seed ${shownOrigin.seed}`])].filter(Boolean).join(" · ");
  if (shownOrigin.kind !== "file") return "this cluster";
  if (!runFile.value) return shownOrigin.title ?? "reading …";
  const { runs } = runFile.value;
  if (runs.length === 1) return shownOrigin.title;
  return html`<label>Run <select id="run" value=${shownOrigin.index} onChange=${(e) => showRunOfFile(Number(e.target.value))}>
    ${runs.map((run, n) => html`<option value=${n}>${run.title}</option>`)}</select></label>`;
}

/** Whether the stage shows its first screen. The inspector then hides events of the cluster's own start. */
const isStageEmpty = () => shownView.value === "stage" && traceOrigin.value.kind === "live" && cursorIndex.value === null && !hasUserData(shownState.value.clusterState);

/** On a small screen the inspector is a sheet at the bottom; this tells whether it is up. */
const isSheetUp = signal(false);
effect(() => { // it would cover what comes
  void [shownView.value, traceOrigin.value, lesson.value?.part];
  isSheetUp.value = false;
});

/** Whether the reader has gone to an event, not only to the end of a step. */
const isEventChosen = () => cursorIndex.value !== null && (shownView.value === "events" || stepAt(shownIndex.value)?.to !== shownIndex.value);

function Inspector() {
  const event = shownEvent.value;
  void eventCount.value;
  if (CLUSTERLESS_VIEWS.includes(shownView.value)) return null; // no event is shown there
  if (!event || isStageEmpty()) return html`<aside aria-label="Event"><h2>No event yet</h2><p class="hint">${hasNoRecording() ? "Nothing is recorded." : isSite ? "Open a story, or a lesson." : "Point a client at this cluster, make a transaction hang on the stage, or open a story."}</p></aside>`;
  const isOnStage = shownView.value === "stage" && !isHelpOpen.value && !isShareOpen.value;
  if (askedFact.value || (!isOnStage && !isEventChosen())) return null; // while a lesson asks, the panel would give the answer
  const causeChain = shownCausesOf(event).slice(1);
  const [earlierCause] = (causeChain.at(-1) ?? event).p; // a cause that is no longer kept, or too far back to follow
  const orderingVerdict = explanation.value?.verdict;
  const focusedPartition = isOnStage ? focusedPartitionOf(judgedMoment.value.clusterState, orderingVerdict) : null;
  return html`<aside aria-label="Event" class=${isSheetUp.value ? "up" : ""}><button id="sheet" aria-expanded=${isSheetUp.value} onClick=${() => (isSheetUp.value = !isSheetUp.value)}>${focusedPartition ? "Partitions and reasons" : "This event"}</button>
    ${isOnStage && html`<${PartitionTable} partitions=${orderingVerdict?.partitions ?? []} deletedNames=${explanation.value?.words?.deleted_partitions} shownName=${focusedPartition} />`}
    ${focusedPartition && html`<${Why} tp=${focusedPartition} />`}
    ${!isOnStage && html`<${EventTitle} event=${event} />`}
    <${Disclosure} id="event" label=${`Details of event #${event.i}`}>
    ${isOnStage && html`<${EventTitle} event=${event} />`}<p><code>${event.node}</code><br />${millisecondsText(event)}${event.tx ? html`<br />${event.tx}` : ""}</p>
    <table><tbody>${Object.entries(event.d ?? {}).sort().map(([name, value]) => html`<tr><th scope="row">${name}</th>
      <td>${typeof value === "object" ? JSON.stringify(value) : String(value)}</td></tr>`)}</tbody></table>
    <h3>Where does it come from?</h3>
    ${causeChain.length === 0 && earlierCause === undefined ? html`<p class="hint">It is a root: nothing in the trace caused it.</p>`
      : html`<ol class="chain">${causeChain.map((cause) => html`<li><${EventLink} i=${cause.i} /> <small>${cause.node}</small></li>`)}
        ${earlierCause !== undefined && html`<li>And so on, from <${EventLink} i=${earlierCause} /></li>`}</ol>`}<//>
  </aside>`;
}

const EventTitle = ({ event }) => html`<h2 class="event-title">${KIND_MEANINGS[event.k] ?? "An event"}<small> #${event.i} ${event.k}</small></h2>`;

/** At most so many steps of a story are marked on the time line. */
const MARKED_STEPS_MAX = 60;

function Scrubber() {
  const newestIndex = Math.max(0, eventCount.value - 1);
  const event = events[shownIndex.value];
  const stepCount = storyNotes().length;
  const isPositionTold = shownView.value === "stage" && hasStoryBelowPicture() && !isHelpOpen.value && !isShareOpen.value;
  const positionText = event ? `#${event.i} / ${events[newestIndex].i} · ${millisecondsText(event)}` : "no events";
  return html`<footer>
    ${!stepCount || isDetailed.value ? html`<button onClick=${() => chooseEvent(0)} aria-label="first event">|◀</button>
    <button onClick=${() => chooseEvent(shownIndex.value - 1)} aria-label="previous event">◀</button>
    <button onClick=${() => chooseEvent(shownIndex.value + 1)} aria-label="next event">▶</button>
    <button onClick=${() => chooseEvent(newestEventIndex())} aria-label="last event">▶|</button>` : ""}
    <${StepControls} isPositionTold=${isPositionTold} />
    <label class="speed"><span class="sr">Speed</span><select id="speed" value=${playSpeed.value} onChange=${(e) => (playSpeed.value = Number(e.target.value))}>${PLAY_SPEEDS.map((factor) => html`<option value=${factor}>${factor}×</option>`)}</select></label>
    <span class="line"><input id="time" type="range" min="0" max=${newestIndex} ref=${(el) => { if (el) el.value = Math.max(0, shownIndex.value); }} aria-label="time"
      aria-valuetext=${event ? `event ${event.i}: ${KIND_MEANINGS[event.k] ?? event.k}` : "no event"} onInput=${(e) => chooseEvent(Number(e.target.value))} />
      ${storyNotes().slice(-MARKED_STEPS_MAX).map((index, n, noteIndices) => {
        const stepEndIndex = (noteIndices[n + 1] ?? eventCount.value) - 1;
        return html`<i aria-hidden="true" class=${`step${stepEndIndex <= shownIndex.value ? " passed" : ""}`} title=${askedFact.value ? undefined : events[index].d.text} style=${{ "--part": stepEndIndex / Math.max(1, newestIndex) }} onClick=${() => chooseEvent(stepEndIndex)}></i>`;
      })}</span>
    ${(!stepCount || isDetailed.value) && html`<span class="where">${positionText}</span>`}
    ${eventRate.value > 0 && html`<span id="rate" class="where">${eventRate.value.toLocaleString("en")} events/s</span>`}
    ${traceOrigin.value.kind === "live" && cursorIndex.value === null && html`<button id="pause" onClick=${() => goToEvent(shownIndex.value)} title="Stay at this event; more go on coming">Pause here</button>`}
    <button id="live" aria-pressed=${cursorIndex.value === null} onClick=${goToNewest} title="Stay at the newest event">Now</button></footer>`;
}

function Help() {
  return html`<section class="view help" tabindex="0" aria-label="Help: keys and words"><div class="sides">
    <div><h2>Keys</h2><dl>${KEY_BINDINGS.map(([key, purpose]) => html`<dt><kbd>${KEY_LABELS[key] ?? key}</kbd></dt><dd>${purpose}</dd>`)}</dl></div>
    <div><h2>Words</h2><dl class="words">${Object.entries(WORD_MEANINGS).map(([word, meaning]) => html`<dt>${word}</dt><dd>${meaning}</dd>`)}</dl></div></div></section>`;
}

/** The server is asked to explain an event once the cursor has rested for CURSOR_REST_MS. Where events keep arriving, the
 *  pause is REST_FACTOR times as long as the last answer took, so that the server is busy for a part of the time only. */
const CURSOR_REST_MS = 120, REST_FACTOR = 3;
/** A question that was not answered is asked again after so long. */
const RETRY_MS = 1000;
let explainTimer = 0, explainStartMs = 0, explainTookMs = 0;
const explainAgainCount = signal(0); // rises when the shown event has changed while the server was asked
effect(() => {
  const indexToExplain = shownIndex.value;
  void [traceOrigin.value, isRunBusy.value, explainAgainCount.value];
  if (traceOrigin.value.moments) return void explainEvent(indexToExplain); // the file holds the explanation
  if (explainTimer && cursorIndex.value === null) return; // the pending question will be about the newest event
  clearTimeout(explainTimer);
  if (showKeptExplanation(indexToExplain)) return void (explainTimer = 0);
  const waitMs = Math.max(CURSOR_REST_MS, cursorIndex.value === null ? explainStartMs + REST_FACTOR * explainTookMs - performance.now() : 0);
  const newTimer = setTimeout(async () => {
    explainStartMs = performance.now();
    await explainEvent(cursorIndex.value === null ? newestEventIndex() : indexToExplain);
    if (explainTimer === newTimer) explainTimer = 0;
    explainTookMs = performance.now() - explainStartMs;
    if (explanation.value?.error && traceOrigin.value.kind === "live") setTimeout(() => (explainAgainCount.value += 1), RETRY_MS);
    if (cursorIndex.value === null && shownIndex.value !== indexToExplain) explainAgainCount.value += 1;
  }, waitMs);
  explainTimer = newTimer;
});

/** Start the simulator in the browser. Once it runs, the files are kept for visits without a network. */
function startSimulator() {
  startWorker(
    (progress) => {
      simulatorProgress.value = progress;
      if (!progress) void keepFilesOffline();
    },
    (reason) => {
      simulatorProgress.value = "";
      problemText.value = `The simulator can't run in this browser: ${reason}. It needs WebAssembly and workers with modules.`;
    },
  );
}

effect(() => {
  document.body.classList.toggle("presented", isPresenting.value && shownView.value === "stage");
});
effect(() => {
  void shownView.value; // on a small screen the name of the view may stand outside of the row of names
  requestAnimationFrame(() => {
    document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
    document.querySelector("main > .view")?.scrollTo(0, 0); // each view begins at its top
  });
});
document.body.classList.toggle("embedded", isEmbedded);
addEventListener("keydown", onKey);
// A page that is closed ends its run: the process would wait in vain.
addEventListener("pagehide", () => {
  if (traceOrigin.value.kind === "run") void leaveRun();
});
addEventListener("pageshow", (event) => {
  if (event.persisted && traceOrigin.value.kind === "run") void followLiveTrace(); // the page came back, but its run has ended
});
render(html`<${App} />`, document.getElementById("app"));
const packedRuns = document.getElementById("runs");
if (packedRuns) await showPackedRuns();
else if (isSite) startSimulator();
else await openSession();
globalThis.__ready = performance.now();
if (!packedRuns) {
  const showsLiveCluster = !isRunLinked();
  if (showsLiveCluster) void followLiveTrace();
  if (!isSite) void followPresent();
  await followAddress();
  if (!showsLiveCluster && traceOrigin.value.kind === "live" && !lesson.value) void followLiveTrace(); // what the address names can't be shown
}
