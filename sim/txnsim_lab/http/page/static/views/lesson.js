// @ts-check
// A lesson: a text, perhaps a question, then the story goes on and shows the answer; and goals that the
// learner reaches. What is right is read from the trace of the run, in Python. A lesson with a `cluster` has no
// story: it is played on the live cluster, which the learner's own programs talk to.

import { useEffect, useRef, useState } from "preact/hooks";
import { act, ask, compareWith, command, drive, listen, play, post, saveAnswer } from "../api.js";
import { html } from "../html.js";
import { batch } from "@preact/signals";
import { isSite } from "../site.js";
import { busy, chooseView, comparison, drivenRun, events, lesson, goLive, isPresenting, source } from "../store.js";

const KEPT = "txnsim-lessons";
/** What this browser remembers: lesson -> how many predictions came true, of how many. */
function progress() {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? "{}");
  } catch {
    return {}; // a browser that keeps nothing
  }
}

function keep({ id, predictions }) {
  try {
    localStorage.setItem(KEPT, JSON.stringify({ ...progress(), [id]: [predictions.filter(Boolean).length, predictions.length] }));
  } catch {
    return; // it is played all the same
  }
}

/** The lessons that the server has; none, until it has told them. */
function useLessons() {
  const [known, setKnown] = useState([]);
  useEffect(() => {
    act(async () => setKnown(await ask("/lessons")));
  }, []);
  return known;
}

/** What a first lesson is. */
const FIRST = "L1";
export function First() {
  const one = useLessons().find(({ id }) => id === FIRST);
  return one ? html`<button id=${`lesson-${FIRST}`} onClick=${() => act(() => begin(one))}>Lesson 1: find it and end it (${one.minutes} min) ${doneOf(FIRST)}</button>` : null;
}

const doneOf = (id) => {
  const done = progress()[id];
  return done ? html`<small>done: ${done.join(" of ")} predictions came true</small>` : "";
};

/** The lessons there are, as buttons; `isRest`: without the first one, which stands by itself. */
export function Lessons({ isRest = false }) {
  const known = useLessons().filter(({ id }) => !isRest || id !== FIRST);
  const here = known.filter((one) => !isSite || !one.cluster);
  const others = known.filter((one) => !here.includes(one));
  return html`${here.map((one) => html`<button class="lesson-choice" id=${`lesson-${one.id}`} onClick=${() => act(() => begin(one))}>${one.id}: ${one.title} <small>${one.minutes} min</small> ${doneOf(one.id)}</button> `)}
    ${others.length > 0 && html`<small id="lessons-elsewhere">${others.map(({ id }) => id).join(" and ")} need a cluster that your own programs can talk to, so they are not here: <code>txnsim lesson ${others[0].id}</code> starts one.</small>`}`;
}

/** The first part of the story that a part is in. */
const firstOf = ({ parts }, part) => Math.max(0, parts.findLastIndex((one, n) => n <= part && one.story));

/** To a part: its story is played up to there, with what reaches the goals before it. */
async function begin(one, part = 0) {
  if (one.cluster) return beginHere(one, part);
  const first = firstOf(one, part);
  const story = one.parts[first]?.story ?? one.story;
  const inputs = [];
  let at = 0;
  for (const { until, solution, actions } of one.parts.slice(first, part)) {
    at = Math.max(at, until);
    for (const number of solution) for (const step of actions[number - 1].steps) inputs.push({ before: at, step });
  }
  if (!(await play(story.scenario, story.run, story.take, 1, { paused: true, of: `${one.id}:${part}`, inputs }))) return;
  if (at) await command("go", { steps: at });
  batch(() => {
    lesson.value = { ...one, part, at, shown: null, hints: 0, tried: null, predictions: lesson.value?.predictions ?? [] };
    chooseView("stage");
  });
  await premise();
}

/** Facts that are hidden on the stage while they are asked: what leads to them is played before the question. */
const HIDDEN = new Set(["lso", "cause", "gets", "withheld", "state", "epoch", "known-epoch", "markers"]);

async function premise() {
  const { part, parts, at } = lesson.value;
  const { ask: question, fact, until, beside: other } = parts[part];
  if (!question || other || until <= at || !HIDDEN.has(fact.split(" ")[0])) return;
  change({ at: until });
  await command("go", { steps: until - at });
}

/** On the live cluster: its topics are made anew unless the lesson goes on. */
async function beginHere(one, part) {
  if (isSite) throw new Error(`${one.id} needs a cluster that your own programs can talk to: txnsim lesson ${one.id} starts one`);
  const { bootstrap } = await post(`/lessons/${one.id}/begin`, { part });
  void listen(); // it ends what was shown before, a lesson too
  batch(() => {
    lesson.value = { ...one, part, at: 0, shown: null, hints: 0, tried: null, doing: null, met: false, predictions: [], bootstrap };
    chooseView("stage");
  });
}

/** A text with the addresses of the cluster. */
const filled = (text) => text.replaceAll("{bootstrap}", lesson.value.bootstrap ?? "").replaceAll("{http}", location.origin);

/** What the lesson does to the live cluster; a rule that is in force is armed anew. */
async function alter({ arms, disarms = [], advance_ms = 0 }) {
  const inForce = new Set((await ask("/faults")).map(({ rule }) => rule.id));
  for (const id of new Set([...disarms, ...arms.map((rule) => rule.id)])) if (inForce.has(id)) await ask(`/faults/${id}`, { method: "DELETE" });
  for (const rule of arms) await post("/faults", rule);
  if (advance_ms) await post("/clock", { advance_ms });
}

/** What the lesson has put in force on the live cluster goes with it. */
const leaveIt = () => act(async () => {
  const { cluster, parts } = lesson.value;
  const mine = cluster ? parts.flatMap(({ arms = [], actions }) => [...arms, ...actions.flatMap((one) => one.arms ?? [])]).map(({ id }) => id) : [];
  if (mine.length) await alter({ arms: [], disarms: mine });
  void listen();
});

/** What a part comes to on the live cluster. */
const found = () => ask(`/lessons/${lesson.value.id}/parts/${lesson.value.part}/now`);

/** The prediction is made; the learner may have to do something before the answer is there. */
async function foretell(guess) {
  const part = lesson.value.parts[lesson.value.part];
  await alter(part);
  if (part.do) return change({ doing: { guess }, hints: 0 });
  return look(guess);
}

async function look(guess) {
  const { predictions } = lesson.value;
  const { answer } = await found();
  change({ shown: { guess, answer }, doing: null, hints: 0, predictions: answer && guess ? [...predictions, guess === answer.key] : predictions });
}

/** A part of a lesson, as an address names it. */
export async function resume(id, part) {
  const one = (await ask("/lessons")).find((known) => known.id === id);
  if (!one) throw new Error(`there is no lesson ${id}`);
  await begin(one, Math.max(0, Math.min(part, one.parts.length - 1)));
}

const change = (some) => (lesson.value = { ...lesson.value, ...some });

/** The story goes on, and shows what the question was about. */
async function reveal(guess) {
  if (lesson.value.cluster) return foretell(guess);
  const { id, part, parts, at, predictions } = lesson.value;
  const one = parts[part];
  const from = source.value;
  if (one.until > at) await command("go", { steps: one.until - at });
  const answer = one.fact ? await ask(`/lessons/${id}/parts/${part}/answer?${new URLSearchParams({ of: from.id, take: from.take })}`) : null;
  if (one.beside) await compareWith(one.beside.run);
  return batch(() => {
    chooseView(one.view);
    change({ shown: { guess, answer }, hints: 0, at: Math.max(at, one.until), predictions: answer && guess ? [...predictions, guess === answer.key] : predictions });
  });
}

/** To the next part; another story begins where it says so. */
async function following() {
  const now = lesson.value;
  const part = now.part + 1;
  comparison.value = null;
  if (part === now.parts.length) keep(now);
  if (!now.parts[part]?.story) {
    change({ part, shown: null, hints: 0, tried: null, met: false });
    return now.parts[part] && !now.cluster ? premise() : null;
  }
  const { predictions } = now;
  await begin(now, part);
  return change({ predictions });
}

export function Lesson() {
  const now = lesson.value;
  const box = useRef(null);
  useEffect(() => { // the button that was pressed is gone, or was off meanwhile: what goes on has the focus
    if (document.activeElement === document.body) box.current?.querySelector("button.primary:not(:disabled), [name=guess], [id^=lesson-action]")?.focus();
  }, [now?.part, now?.shown, now?.tried, now?.doing, now?.met, busy.value]);
  if (!now) return null;
  const part = now.parts[now.part];
  const View = part?.goal && Object.keys(part.goal).length ? Aim : One;
  return html`<section ref=${box} class=${isPresenting.value ? "lesson presented" : "lesson"} id="lesson" aria-label=${`Lesson ${now.id}`} aria-live="polite">
    <h2>${now.id}: ${now.title} <small>${part ? `part ${now.part + 1} of ${now.parts.length}` : "the end"}</small></h2>
    ${part ? html`<${View} key=${now.part} part=${part} now=${now} />` : html`<${End} now=${now} />`}</section>`;
}

const Next = ({ now }) => html`<button id="lesson-next" class="primary" disabled=${busy.value} onClick=${() => act(following)}>${now.part + 1 < now.parts.length ? "Next part" : "Finish"}</button>`;

/** A program, or commands; a program can be saved. */
const Code = ({ part }) => part.code && html`<pre tabindex="0" role="group" aria-label="To be typed into a terminal">${filled(part.code)}</pre>
  ${part.file && html`<p><a class="link" id="lesson-code" download=${part.file} href=${`data:text/plain;charset=utf-8,${encodeURIComponent(part.code)}`}>Save it as ${part.file}</a></p>`}`;

const Hints = ({ part, now }) => html`${part.hints.slice(0, now.hints).map((one) => html`<p class="hint">Hint: ${filled(one)}</p>`)}
  ${now.hints < part.hints.length && html`<button id="lesson-hint" onClick=${() => change({ hints: now.hints + 1 })}>Hint</button>`}
  <button id="lesson-leave" onClick=${leaveIt}>Leave the lesson</button>`;

function One({ part, now }) {
  const [guess, setGuess] = useState("");
  const go = (one) => act(() => reveal(one));
  if (now.shown) return html`<${Shown} part=${part} now=${now} />`;
  if (now.doing) {
    return html`<p id="lesson-do">${filled(part.do)}</p>
      <button id="lesson-done" class="primary" disabled=${busy.value} onClick=${() => act(() => look(now.doing.guess))}>It is done</button> <button id="lesson-leave" onClick=${leaveIt}>Leave the lesson</button>`;
  }
  return html`<p>${filled(part.say)}</p><${Code} part=${part} />
    ${part.ask && html`<fieldset><legend>${part.ask}</legend>${Object.entries(part.choices).map(([key, text]) => html`
      <label><input type="radio" name="guess" value=${key} checked=${guess === key} onChange=${() => setGuess(key)} /> ${text}</label>`)}</fieldset>`}
    ${part.ask
      ? html`<button id="lesson-answer" class="primary" disabled=${!guess || busy.value} onClick=${() => go(guess)}>This is my prediction: go on</button>
        ${isPresenting.value && html`<button id="lesson-show" disabled=${busy.value} onClick=${() => go("")}>Show the answer</button>`}`
      : html`<button id="lesson-go" class="primary" disabled=${busy.value} onClick=${() => go("")}>Go on</button>`}
    <${Hints} part=${part} now=${now} />`;
}

/** The prediction beside the answer. */
function Shown({ part, now }) {
  const { answer, guess } = now.shown;
  const isRight = guess === answer?.key;
  return html`
    ${answer && html`<dl class="predicted">${guess && html`<dt>You said</dt><dd>${part.choices[guess]}.</dd>`}
      <dt>The run</dt><dd class=${isRight ? "right" : guess ? "wrong" : ""}>${answer.text}. ${guess && html`<b>${isRight ? "✓ Right." : "✕ It is different."}</b>`}</dd></dl>`}
    ${answer && guess && !isRight && part.mistakes[guess] && html`<p>${part.mistakes[guess]}</p>`}
    <p>${filled(part.then)}</p><${Next} now=${now} />`;
}

function Aim({ part, now }) {
  const isMet = now.cluster ? now.met : events.some((one) => one.k === "goal" && one.d.met && one.d.goal === part.say);
  if (isMet) {
    return html`<p id="lesson-met" class="right"><b>✓ Goal reached.</b> ${filled(part.then)}</p>
      ${part.saves && html`<p><a id="lesson-save" class="link" download=${`${mine(now)}.yaml`} href=${`/api/v1${story(part, now)}`}
        onClick=${(event) => {
          if (!isSite) return; // a browser saves what a server answers by itself
          event.preventDefault();
          void saveAnswer(story(part, now), `${mine(now)}.yaml`);
        }}>Save it as a story of your own</a>:
        then <code>txnsim scenario run ${mine(now)}.yaml --armed</code> plays it again.</p>`}
      <${Next} now=${now} />`;
  }
  const attempt = (one) => act(async () => {
    if (now.cluster) {
      await alter(one);
      const { met, goal, because } = await found();
      return change({ tried: { ...one, goal, because }, met });
    }
    for (const step of one.steps) await drive(step);
    goLive();
    return change({ tried: one });
  });
  return html`<p>${filled(part.say)}</p><${Code} part=${part} />
    ${now.tried && html`<p class="wrong"><b>✕ Not yet.</b> ${filled(now.tried.then)} ${!now.cluster && html`<button class="link" disabled=${!drivenRun.value?.back} onClick=${() => act(() => back(now.tried))}>Take it back</button>`}</p>
      ${now.tried.goal && html`<ul>${now.tried.goal.map((one) => one.found === one.wanted ? html`<li class="right">✓ ${one.fact}: ${one.found}</li>` : html`<li class="wrong">✕ ${one.fact}: ${one.found}; wanted: ${one.wanted}</li>`)}${now.tried.because.map((one) => html`<li>${one}</li>`)}</ul>`}`}
    ${part.actions.map((one, n) => html`<p><button id=${`lesson-action-${n}`} disabled=${busy.value} onClick=${() => attempt(one)}>${filled(one.text)}</button></p>`)}
    <${Hints} part=${part} now=${now} />`;
}

/** Where the story is that the learner made. */
const story = (part, now) => `/runs/${source.value.id}/story?${new URLSearchParams({ name: mine(now), verdict: part.saves })}`;
const mine = ({ id }) => `my-${id.toLowerCase()}`;

async function back(tried) {
  await command("back", { stops: tried.steps.length });
  change({ tried: null });
}

function End({ now }) {
  const right = now.predictions.filter(Boolean).length;
  return html`<p id="lesson-end" class="right"><b>✓ That was ${now.id}.</b> ${now.predictions.length > 0 && `${right} of your ${now.predictions.length} predictions came true.`}</p>
    <p>You can look around in all views, step back, or try something else.</p>
    <button id="lesson-leave" class="primary" onClick=${leaveIt}>Leave the lesson</button>`;
}
