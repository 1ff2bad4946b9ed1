// @ts-check
// Compare: the same story in two modes beside each other, with one cursor: that of the run that is shown.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { act, compareWith, explainOf } from "../api.js";
import { indexBeside, picture } from "../compare.js";
import { html } from "../html.js";
import { thisBook, comparison, events, goTo, lesson, moment, storyNotes, source, withBook } from "../store.js";
import { agreements, headline, unread } from "../agreement.js";
import { highWatermark, stepAt } from "../stage.js";
import { Folded } from "./folded.js";
import { Picture } from "./picture.js";
import { Coordinated, HOW, gets } from "./strip.js";
import { Tape } from "./tape.js";
import { GENERATIONS } from "../words.js";

/** What the server says of the other run: {of, at, open, error}. */
const told = signal(null);

export function Compare() {
  const it = comparison.value;
  const here = moment.value;
  const there = indexBeside(it, here.index);
  const position = withBook(it.book, () => events[there]?.i);
  useEffect(() => {
    const tell = (found) => (told.value = { of: it, at: position, ...found });
    if (position !== undefined) void explainOf(it.about, position).then(({ open }) => tell({ open, error: "" }), ({ message }) => tell({ open: [], error: message }));
  }, [it, position]);
  const answer = told.value?.of === it && told.value.at === position ? told.value : null;
  const other = { position, said: answer && !answer.error ? answer : null, error: answer?.error ?? "", open: answer?.open ?? [] };
  const sayings = (one) => (one.said ? agreements : () => unread(one));
  const mine = picture(thisBook(), here.index, here.open, sayings(here));
  const theirs = picture(it.book, there, other.open, sayings(other), mine);
  const { first } = it;
  const step = lesson.value ? null : stepAt(here.index);
  return html`<section class="compare" aria-label="Compare">
    <p class="gap" id="difference"><b>${first ? first.text : "The stage shows no difference between the two."}</b>
      ${first && html` <button onClick=${() => toFirst(first)}>See it</button>`} <label>with <select id="compare-with" value=${it.about.run} onChange=${(e) => act(() => compareWith(e.target.value))}>${it.others.map((one) => html`<option value=${one}>${one}</option>`)}</select></label> <button id="compare-end" onClick=${() => (comparison.value = null)}>End comparing</button></p>
    ${step && html`<p class="says">Step ${step.number} of ${storyNotes().length} · ${events[step.from].d.text}</p>`}
    <div class="two"><${Side} name=${source.value.run} verdict=${source.value.verdict} it=${mine} of=${headline(mine.said, here)} isShown=${true} /><${Side} name=${it.about.run} verdict=${it.about.verdict} it=${theirs} /></div></section>`;
}

/** To the end of the step in which two runs differ first. */
export const toFirst = ({ row }) => goTo(stepAt(storyNotes()[row.left - 1]).to);

/** `of` are the attributes of the headline, which is that of the run that is shown. */
function Side({ name, verdict, it, of = {}, isShown = false }) {
  return html`<section class="side"><h2>${name}${verdict ? html` <small>${verdict.observed}</small>` : ""}</h2>
    <p class="hint">${GENERATIONS[name.split("/")[0]]}</p>
    <${Picture} it=${it.drawn} label=${`The picture of ${name}`} isStill=${!isShown} />
    <div ...${of}>${it.said.map(({ kind, title, text }) => html`<p class=${`agreement ${kind}`}><b>${title}</b> ${text}</p>`)}</div>
    <${Folded} id=${`details-${isShown ? "shown" : "other"}`} label="Details: every transaction, message and offset">
    ${it.ids.map((one) => html`<${Coordinated} key=${one.id} it=${one} />`)}
    <ul class="way">${it.messages.map((one) => html`<li class=${`message ${one.how}`}><span class="end-of">${one.from}</span> ${one.label} ${one.said} <b>${HOW[one.how]}</b> <span class="end-of">${one.to}</span></li>`)}</ul>
    ${it.logs.map(({ tp, log, of }) => html`<div class="strip"><h3>${tp}</h3><${Tape} tp=${`${tp} in ${name}`} log=${log} hw=${highWatermark(it.now, log)} of=${of} open=${it.open.filter((one) => one.partition === tp)} /><p class="readers">${gets(log)}</p></div>`)}<//></section>`;
}
