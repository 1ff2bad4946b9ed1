// @ts-check
// Compare: two runs of one story side by side. The cursor is that of the run that is shown.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { runTask, compareWithRun, askExplanation } from "../api.js";
import { indexInOtherRun, comparedSide } from "../compare.js";
import { html } from "../html.js";
import { askedFact, getCurrentTrace, comparison, events, goToEvent, lesson, judgedMoment, storyNotes, traceOrigin, withTrace } from "../store.js";
import { highWatermark, stepAt } from "../stage.js";
import { Disclosure } from "./folded.js";
import { Picture } from "./picture.js";
import { CoordinatorBelief, readersSentence } from "./strip.js";
import { Tape } from "./tape.js";
import { VerdictLine } from "./verdict.js";
import { GENERATIONS, runName } from "../words.js";

/** The server's explanation of the other run: {of, at, open, error}. */
const otherExplanation = signal(null);

export function Compare() {
  const runPair = comparison.value;
  const ownMoment = judgedMoment.value;
  const otherIndex = indexInOtherRun(runPair, ownMoment.index);
  const otherPosition = withTrace(runPair.trace, () => events[otherIndex]?.i);
  useEffect(() => {
    const keepExplanation = (reply) => (otherExplanation.value = { of: runPair, at: otherPosition, ...reply });
    if (otherPosition !== undefined) void askExplanation(runPair.about, otherPosition).then((reply) => keepExplanation({ ...reply, error: "" }), ({ message }) => keepExplanation({ open: [], error: message }));
  }, [runPair, otherPosition]);
  const currentExplanation = otherExplanation.value?.of === runPair && otherExplanation.value.at === otherPosition ? otherExplanation.value : null;
  const otherMoment = { position: otherPosition, serverExplanation: currentExplanation && !currentExplanation.error ? currentExplanation : null, error: currentExplanation?.error ?? "", open: currentExplanation?.open ?? [] };
  const ownSide = comparedSide(getCurrentTrace(), ownMoment.index, ownMoment);
  const otherSide = comparedSide(runPair.trace, otherIndex, otherMoment, ownSide);
  const { first: firstDifference, rows } = runPair;
  const shownStep = lesson.value ? null : stepAt(ownMoment.index);
  return html`<section class="compare" aria-label="Compare">
    <p class="gap" id="difference"><b>${firstDifference ? `They differ first in step ${rows[firstDifference.row].left}. ${capitalize(runName(traceOrigin.value.run))}: ${firstDifference.left} ${capitalize(runName(runPair.about.run))}: ${firstDifference.right}` : "The stage shows no difference between the two."}</b>
      ${firstDifference && html` <button onClick=${() => goToFirstDifference(runPair)}>See it</button>`} <label>with <select id="compare-with" value=${runPair.about.run} onChange=${(e) => runTask(() => compareWithRun(e.target.value))}>${runPair.others.map((label) => html`<option value=${label}>${runName(label)}</option>`)}</select></label> <button id="compare-end" onClick=${() => (comparison.value = null)}>End comparing</button></p>
    ${shownStep && html`<p class="says">Step ${shownStep.number} of ${storyNotes().length} · ${events[shownStep.from].d.text}</p>`}
    <div class="two"><${RunSide} name=${traceOrigin.value.run} verdict=${traceOrigin.value.verdict} side=${ownSide} moment=${ownMoment} isShown=${true} /><${RunSide} name=${runPair.about.run} verdict=${runPair.about.verdict} side=${otherSide} moment=${otherMoment} /></div></section>`;
}

/** Go to the end of the first step in which the two runs differ. */
const goToFirstDifference = ({ rows, first: firstDifference }) => goToEvent(stepAt(storyNotes()[rows[firstDifference.row].left - 1]).to);

const capitalize = (name) => name[0].toUpperCase() + name.slice(1);

/** One of the two runs at its moment. */
function RunSide({ name, verdict, side, moment, isShown = false }) {
  return html`<section class="side"><h2 data-run=${name} title=${GENERATIONS[name.split("/")[0]]?.[1]}>${runName(name)}${verdict ? html` <small>${verdict.observed}</small>` : ""}</h2>
    <${Picture} picture=${side.drawn} label=${`The picture of the run ${runName(name)}`} isStill=${!isShown} />
    ${!lesson.value || !askedFact.value ? html`<${VerdictLine} moment=${moment} />` : ""}
    <${Disclosure} id=${`details-${isShown ? "shown" : "other"}`} label="Details: every transaction, message and offset">
    ${side.ids.map((coordinatorBelief) => html`<${CoordinatorBelief} key=${coordinatorBelief.id} idBelief=${coordinatorBelief} sentence=${moment.serverExplanation?.words.coordinators[coordinatorBelief.id]} />`)}
    <ul class="way">${side.messages.map((message) => html`<li class=${`message ${message.how}`}><span class="end-of">${message.from}</span> ${message.label} ${message.detail} <b>${message.status}</b> <span class="end-of">${message.to}</span></li>`)}</ul>
    ${side.logs.map(({ tp, log, logTape }) => html`<div class="strip"><h3>${tp}</h3><${Tape} tp=${`${tp}, ${runName(name)}`} log=${log} hw=${highWatermark(side.clusterState, log)} logTape=${logTape} open=${side.open.filter((openVerdict) => openVerdict.partition === tp)} /><p class="readers">${askedFact.value ? "" : readersSentence(moment.serverExplanation, tp)}</p></div>`)}<//></section>`;
}
