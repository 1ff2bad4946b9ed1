// @ts-check
// A lesson: a text, perhaps a question, then the story goes on and shows the answer; at the end a goal.
// What is right is read from the trace of the run, in Python.

import { useEffect, useState } from "preact/hooks";
import { act, ask, command, drive, listen, play } from "../api.js";
import { html } from "../html.js";
import { batch } from "@preact/signals";
import { busy, choose, events, lesson, live, source } from "../store.js";

/** The lessons there are, as buttons. */
export function Lessons() {
  const [known, setKnown] = useState([]);
  useEffect(() => {
    act(async () => setKnown(await ask("/lessons")));
  }, []);
  return known.map((one) => html`<button class="lesson-choice" id=${`lesson-${one.id}`} onClick=${() => begin(one)}>${one.id}: ${one.title}</button> `);
}

const begin = (one, part = 0) => act(async () => {
  await play(one.scenario, one.run, one.take, 1, { paused: true, of: one.id });
  if (part) await command("go", { steps: one.parts[Math.min(part, one.parts.length) - 1].until });
  batch(() => {
    lesson.value = { ...one, part, shown: null, hints: 0, tried: null };
    choose("stage");
  });
});

/** A part of a lesson, as an address names it. */
export async function resume(id, part) {
  const one = (await ask("/lessons")).find((known) => known.id === id);
  if (!one) throw new Error(`there is no lesson ${id}`);
  await begin(one, Math.max(0, Math.min(part, one.parts.length)));
}

const change = (some) => (lesson.value = { ...lesson.value, ...some });

/** The story goes on, and shows what the question was about. */
async function reveal(guess) {
  const { id, part, parts, take } = lesson.value;
  const one = parts[part];
  const from = source.value;
  await command("go", { steps: one.until - (part ? parts[part - 1].until : 0) });
  const answer = one.fact ? await ask(`/lessons/${id}/parts/${part}/answer?${new URLSearchParams({ of: from.id, take })}`) : null;
  batch(() => {
    choose(one.view);
    change({ shown: { guess, answer }, hints: 0 });
  });
}

export function Lesson() {
  const now = lesson.value;
  if (!now) return null;
  const part = now.parts[now.part];
  return html`<section class="lesson" id="lesson" aria-label=${`Lesson ${now.id}`} aria-live="polite">
    <h2>${now.id}: ${now.title} <small>${part ? `part ${now.part + 1} of ${now.parts.length}` : "the goal"}</small></h2>
    ${part ? html`<${One} key=${now.part} part=${part} now=${now} />` : html`<${Aim} now=${now} />`}</section>`;
}

function One({ part, now }) {
  const [guess, setGuess] = useState("");
  const choices = Object.entries(part.choices);
  const go = (one) => act(() => reveal(one));
  const next = () => change({ part: now.part + 1, shown: null, hints: 0 });
  if (now.shown) {
    const { answer, guess: said } = now.shown;
    return html`
      ${answer && said && html`<p class=${said === answer.key ? "right" : "wrong"}><b>${said === answer.key ? "✓ Right" : "✕ It is different"}:</b> ${answer.text}.</p>`}
      ${answer && !said && html`<p><b>The answer:</b> ${answer.text}.</p>`}
      <p>${part.then}</p>
      <button id="lesson-next" class="primary" onClick=${next}>${now.part + 1 < now.parts.length ? "Next part" : now.goal ? "To the goal" : "Finish"}</button>`;
  }
  return html`<p>${part.say}</p>
    ${part.ask && html`<fieldset><legend>${part.ask}</legend>${choices.map(([key, text]) => html`
      <label><input type="radio" name="guess" value=${key} checked=${guess === key} onChange=${() => setGuess(key)} /> ${text}</label>`)}</fieldset>`}
    ${part.hints.slice(0, now.hints).map((one) => html`<p class="hint">Hint: ${one}</p>`)}
    ${part.ask
      ? html`<button id="lesson-answer" class="primary" disabled=${!guess || busy.value} onClick=${() => go(guess)}>Answer, and see</button>
        <button id="lesson-skip" disabled=${busy.value} onClick=${() => go("")}>Skip the question</button>`
      : html`<button id="lesson-go" class="primary" disabled=${busy.value} onClick=${() => go("")}>Go on</button>`}
    ${now.hints < part.hints.length && html`<button id="lesson-hint" onClick=${() => change({ hints: now.hints + 1 })}>Hint</button>`}
    <button id="lesson-leave" onClick=${() => listen()}>Leave the lesson</button>`;
}

function Aim({ now }) {
  const { goal } = now;
  const isMet = events.some((one) => one.k === "goal" && one.d.met);
  if (!goal || isMet) {
    return html`<p id="lesson-met" class="right"><b>${goal ? "✓ Goal reached." : "✓ That is the tour."}</b> ${goal?.reached ?? ""}</p>
      <p>You can look around in all views, step back, or try something else.</p>
      <button id="lesson-leave" class="primary" onClick=${() => listen()}>Leave the lesson</button>`;
  }
  const attempt = (one) => act(async () => {
    await drive(one.step);
    live();
    change({ tried: one });
  });
  return html`<p>${goal.say}</p>
    ${now.tried && html`<p class="wrong"><b>✕ Not yet.</b> ${now.tried.then} <button class="link" onClick=${() => act(() => command("back", { stops: 1 }))}>Take it back</button></p>`}
    ${goal.actions.map((one, n) => html`<p><button id=${`lesson-action-${n}`} disabled=${busy.value} onClick=${() => attempt(one)}>${one.text}</button></p>`)}
    ${goal.hints.slice(0, now.hints).map((one) => html`<p class="hint">Hint: ${one}</p>`)}
    ${now.hints < goal.hints.length && html`<button id="lesson-hint" onClick=${() => change({ hints: now.hints + 1 })}>Hint</button>`}
    <button id="lesson-leave" onClick=${() => listen()}>Leave the lesson</button>`;
}
