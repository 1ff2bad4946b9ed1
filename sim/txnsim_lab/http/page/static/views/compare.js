// @ts-check
// Compare: two runs of one story side by side. The cursor is that of the run that is shown.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { act, compareWith, explainOf } from "../api.js";
import { indexBeside, sideAt } from "../compare.js";
import { html } from "../html.js";
import { thisBook, comparison, events, goTo, lesson, moment, storyNotes, source, withBook } from "../store.js";
import { agreements, headline, unread } from "../agreement.js";
import { highWatermark, stepAt } from "../stage.js";
import { Disclosure } from "./folded.js";
import { Picture } from "./picture.js";
import { CoordinatorBelief, STATUS_WORDS, readerText } from "./strip.js";
import { Tape } from "./tape.js";
import { GENERATIONS } from "../words.js";

/** The server's explanation of the other run: {of, at, open, error}. */
const otherAnswer = signal(null);

export function Compare() {
  const pair = comparison.value;
  const ownMoment = moment.value;
  const otherIndex = indexBeside(pair, ownMoment.index);
  const position = withBook(pair.book, () => events[otherIndex]?.i);
  useEffect(() => {
    const keepAnswer = (reply) => (otherAnswer.value = { of: pair, at: position, ...reply });
    if (position !== undefined) void explainOf(pair.about, position).then(({ open }) => keepAnswer({ open, error: "" }), ({ message }) => keepAnswer({ open: [], error: message }));
  }, [pair, position]);
  const answer = otherAnswer.value?.of === pair && otherAnswer.value.at === position ? otherAnswer.value : null;
  const otherMoment = { position, said: answer && !answer.error ? answer : null, error: answer?.error ?? "", open: answer?.open ?? [] };
  const sentencesOf = (sideMoment) => (sideMoment.said ? agreements : () => unread(sideMoment));
  const ownSide = sideAt(thisBook(), ownMoment.index, ownMoment.open, sentencesOf(ownMoment));
  const otherSide = sideAt(pair.book, otherIndex, otherMoment.open, sentencesOf(otherMoment), ownSide);
  const { first } = pair;
  const step = lesson.value ? null : stepAt(ownMoment.index);
  return html`<section class="compare" aria-label="Compare">
    <p class="gap" id="difference"><b>${first ? first.text : "The stage shows no difference between the two."}</b>
      ${first && html` <button onClick=${() => toFirst(first)}>See it</button>`} <label>with <select id="compare-with" value=${pair.about.run} onChange=${(e) => act(() => compareWith(e.target.value))}>${pair.others.map((runName) => html`<option value=${runName}>${runName}</option>`)}</select></label> <button id="compare-end" onClick=${() => (comparison.value = null)}>End comparing</button></p>
    ${step && html`<p class="says">Step ${step.number} of ${storyNotes().length} · ${events[step.from].d.text}</p>`}
    <div class="two"><${Side} name=${source.value.run} verdict=${source.value.verdict} side=${ownSide} headlineAttributes=${headline(ownSide.said, ownMoment)} isShown=${true} /><${Side} name=${pair.about.run} verdict=${pair.about.verdict} side=${otherSide} /></div></section>`;
}

/** Go to the end of the first step in which the two runs differ. */
export const toFirst = ({ row }) => goTo(stepAt(storyNotes()[row.left - 1]).to);

/** One of the two runs. `headlineAttributes` belong to the sentences of the run that is shown. */
function Side({ name, verdict, side, headlineAttributes = {}, isShown = false }) {
  return html`<section class="side"><h2>${name}${verdict ? html` <small>${verdict.observed}</small>` : ""}</h2>
    <p class="hint">${GENERATIONS[name.split("/")[0]]}</p>
    <${Picture} picture=${side.drawn} label=${`The picture of ${name}`} isStill=${!isShown} />
    <div ...${headlineAttributes}>${side.said.map(({ kind, title, text }) => html`<p class=${`agreement ${kind}`}><b>${title}</b> ${text}</p>`)}</div>
    <${Disclosure} id=${`details-${isShown ? "shown" : "other"}`} label="Details: every transaction, message and offset">
    ${side.ids.map((coordinatorBelief) => html`<${CoordinatorBelief} key=${coordinatorBelief.id} idBelief=${coordinatorBelief} />`)}
    <ul class="way">${side.messages.map((message) => html`<li class=${`message ${message.how}`}><span class="end-of">${message.from}</span> ${message.label} ${message.said} <b>${STATUS_WORDS[message.how]}</b> <span class="end-of">${message.to}</span></li>`)}</ul>
    ${side.logs.map(({ tp, log, logTape }) => html`<div class="strip"><h3>${tp}</h3><${Tape} tp=${`${tp} in ${name}`} log=${log} hw=${highWatermark(side.now, log)} logTape=${logTape} open=${side.open.filter((openVerdict) => openVerdict.partition === tp)} /><p class="readers">${readerText(log)}</p></div>`)}<//></section>`;
}
