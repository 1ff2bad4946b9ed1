// @ts-check
// A lesson. Each part is a text and perhaps a question, whose answer the story then shows; or a goal to reach. The
// server reads the right answer from the trace of the run. A lesson with a `cluster` has no story: it is played on
// the live cluster, with the learner's own programs.

import { useEffect, useRef, useState } from "preact/hooks";
import { act, ask, compareWith, command, drive, followLiveTrace, play, post, saveAnswer } from "../api.js";
import { html } from "../html.js";
import { batch } from "@preact/signals";
import { isSite } from "../site.js";
import { busy, chooseView, comparison, drivenRun, events, lesson, goLive, isPresenting, source } from "../store.js";

const STORAGE_KEY = "txnsim-lessons";
/** What this browser remembers: lesson -> [predictions that came true, predictions]. */
function progress() {
  try {
    return JSON.parse(localStorage.getItem(STORAGE_KEY) ?? "{}");
  } catch {
    return {}; // the browser stores nothing
  }
}

/** Remember the result of a lesson. */
function keepProgress({ id, predictions }) {
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify({ ...progress(), [id]: [predictions.filter(Boolean).length, predictions.length] }));
  } catch {
    return; // the browser stores nothing; the lesson goes on
  }
}

/** The lessons of the server; none until it has answered. */
function useLessons() {
  const [lessons, setLessons] = useState([]);
  useEffect(() => {
    act(async () => setLessons(await ask("/lessons")));
  }, []);
  return lessons;
}

/** The lesson that the first screen offers. */
const FIRST = "L1";
export function FirstLesson() {
  const firstLesson = useLessons().find(({ id }) => id === FIRST);
  return firstLesson ? html`<button id=${`lesson-${FIRST}`} onClick=${() => act(() => beginLesson(firstLesson))}>Lesson 1: find it and end it (${firstLesson.minutes} min) ${progressText(FIRST)}</button>` : null;
}

const progressText = (id) => {
  const score = progress()[id];
  return score ? html`<small>done: ${score.join(" of ")} predictions came true</small>` : "";
};

/** Buttons for the lessons; with `isRest` without the first one, which has its own button. */
export function Lessons({ isRest = false }) {
  const lessons = useLessons().filter(({ id }) => !isRest || id !== FIRST);
  const playableLessons = lessons.filter((lessonInfo) => !isSite || !lessonInfo.cluster);
  const clusterLessons = lessons.filter((lessonInfo) => !playableLessons.includes(lessonInfo));
  return html`${playableLessons.map((lessonInfo) => html`<button class="lesson-choice" id=${`lesson-${lessonInfo.id}`} onClick=${() => act(() => beginLesson(lessonInfo))}>${lessonInfo.id}: ${lessonInfo.title} <small>${lessonInfo.minutes} min</small> ${progressText(lessonInfo.id)}</button> `)}
    ${clusterLessons.length > 0 && html`<small id="lessons-elsewhere">${clusterLessons.map(({ id }) => id).join(" and ")} need a cluster that your own programs can talk to, so they are not here: <code>txnsim lesson ${clusterLessons[0].id}</code> starts one.</small>`}`;
}

/** The number of the part at which the story of a part begins. */
const storyStartOf = ({ parts }, part) => Math.max(0, parts.findLastIndex((lessonPart, n) => n <= part && lessonPart.story));

/** Begin a lesson at a part: its story is played up to there, with the solutions of the goals before it. */
async function beginLesson(lessonInfo, part = 0) {
  if (lessonInfo.cluster) return beginOnCluster(lessonInfo, part);
  const storyStart = storyStartOf(lessonInfo, part);
  const story = lessonInfo.parts[storyStart]?.story ?? lessonInfo.story;
  const inputs = [];
  let stepsPlayed = 0;
  for (const { until, solution, actions } of lessonInfo.parts.slice(storyStart, part)) {
    stepsPlayed = Math.max(stepsPlayed, until);
    for (const number of solution) for (const step of actions[number - 1].steps) inputs.push({ before: stepsPlayed, step });
  }
  if (!(await play(story.scenario, story.run, story.take, 1, { paused: true, of: `${lessonInfo.id}:${part}`, inputs }))) return;
  if (stepsPlayed) await command("go", { steps: stepsPlayed });
  batch(() => {
    lesson.value = { ...lessonInfo, part, at: stepsPlayed, shown: null, hints: 0, tried: null, predictions: lesson.value?.predictions ?? [] };
    chooseView("stage");
  });
  await playPremise();
}

/** Facts that the stage hides while a question asks about them. So the story may be played before the question. */
const HIDDEN = new Set(["lso", "cause", "gets", "withheld", "state", "epoch", "known-epoch", "markers"]);

/** Play what leads to the answer before the question, if the stage hides the answer. */
async function playPremise() {
  const { part, parts, at } = lesson.value;
  const { ask: question, fact, until, beside: besideRun } = parts[part];
  if (!question || besideRun || until <= at || !HIDDEN.has(fact.split(" ")[0])) return;
  updateLesson({ at: until });
  await command("go", { steps: until - at });
}

/** Begin a lesson on the live cluster; at its first part, the server creates its topics anew. */
async function beginOnCluster(lessonInfo, part) {
  if (isSite) throw new Error(`${lessonInfo.id} needs a cluster that your own programs can talk to: txnsim lesson ${lessonInfo.id} starts one`);
  const { bootstrap } = await post(`/lessons/${lessonInfo.id}/begin`, { part });
  void followLiveTrace(); // it ends what was shown before, including a lesson
  batch(() => {
    lesson.value = { ...lessonInfo, part, at: 0, shown: null, hints: 0, tried: null, doing: null, met: false, predictions: [], bootstrap };
    chooseView("stage");
  });
}

/** Fill the addresses of the cluster into a text. */
const withAddresses = (text) => text.replaceAll("{bootstrap}", lesson.value.bootstrap ?? "").replaceAll("{http}", location.origin);

/** Arm and disarm rules on the live cluster, and advance its clock. A rule that is in force is armed anew. */
async function alterCluster({ arms, disarms = [], advance_ms = 0 }) {
  const inForce = new Set((await ask("/faults")).map(({ rule }) => rule.id));
  for (const id of new Set([...disarms, ...arms.map((rule) => rule.id)])) if (inForce.has(id)) await ask(`/faults/${id}`, { method: "DELETE" });
  for (const rule of arms) await post("/faults", rule);
  if (advance_ms) await post("/clock", { advance_ms });
}

/** Leave the lesson, and disarm the rules that it has armed on the live cluster. */
const leaveLesson = () => act(async () => {
  const { cluster, parts } = lesson.value;
  const ownRuleIds = cluster ? parts.flatMap(({ arms = [], actions }) => [...arms, ...actions.flatMap((action) => action.arms ?? [])]).map(({ id }) => id) : [];
  if (ownRuleIds.length) await alterCluster({ arms: [], disarms: ownRuleIds });
  void followLiveTrace();
});

/** Ask the server how a part stands on the live cluster. */
const askPartState = () => ask(`/lessons/${lesson.value.id}/parts/${lesson.value.part}/now`);

/** Take a prediction on the live cluster. The learner may have to do something before there is an answer. */
async function predict(guess) {
  const part = lesson.value.parts[lesson.value.part];
  await alterCluster(part);
  if (part.do) return updateLesson({ doing: { guess }, hints: 0 });
  return showAnswer(guess);
}

/** Ask for the answer of the part on the live cluster, and show it. */
async function showAnswer(guess) {
  const { predictions } = lesson.value;
  const { answer } = await askPartState();
  updateLesson({ shown: { guess, answer }, doing: null, hints: 0, predictions: answer && guess ? [...predictions, guess === answer.key] : predictions });
}

/** Begin the part of a lesson that an address names. */
export async function resumeLesson(id, part) {
  const lessonInfo = (await ask("/lessons")).find((candidate) => candidate.id === id);
  if (!lessonInfo) throw new Error(`there is no lesson ${id}`);
  await beginLesson(lessonInfo, Math.max(0, Math.min(part, lessonInfo.parts.length - 1)));
}

const updateLesson = (changes) => (lesson.value = { ...lesson.value, ...changes });

/** Let the story go on, and show the answer to the question. */
async function reveal(guess) {
  if (lesson.value.cluster) return predict(guess);
  const { id, part, parts, at, predictions } = lesson.value;
  const lessonPart = parts[part];
  const origin = source.value;
  if (lessonPart.until > at) await command("go", { steps: lessonPart.until - at });
  const answer = lessonPart.fact ? await ask(`/lessons/${id}/parts/${part}/answer?${new URLSearchParams({ of: origin.id, take: origin.take })}`) : null;
  if (lessonPart.beside) await compareWith(lessonPart.beside.run);
  return batch(() => {
    chooseView(lessonPart.view);
    updateLesson({ shown: { guess, answer }, hints: 0, at: Math.max(at, lessonPart.until), predictions: answer && guess ? [...predictions, guess === answer.key] : predictions });
  });
}

/** Go to the next part, which may begin another story. */
async function goToNextPart() {
  const playedLesson = lesson.value;
  const part = playedLesson.part + 1;
  comparison.value = null;
  if (part === playedLesson.parts.length) keepProgress(playedLesson);
  if (!playedLesson.parts[part]?.story) {
    updateLesson({ part, shown: null, hints: 0, tried: null, met: false });
    return playedLesson.parts[part] && !playedLesson.cluster ? playPremise() : null;
  }
  const { predictions } = playedLesson;
  await beginLesson(playedLesson, part);
  return updateLesson({ predictions });
}

export function Lesson() {
  const playedLesson = lesson.value;
  const sectionRef = useRef(null);
  useEffect(() => { // the pressed button is gone, or was disabled: focus the next one
    if (document.activeElement === document.body) sectionRef.current?.querySelector("button.primary:not(:disabled), [name=guess], [id^=lesson-action]")?.focus();
  }, [playedLesson?.part, playedLesson?.shown, playedLesson?.tried, playedLesson?.doing, playedLesson?.met, busy.value]);
  if (!playedLesson) return null;
  const part = playedLesson.parts[playedLesson.part];
  const View = part?.goal && Object.keys(part.goal).length ? GoalPart : QuestionPart;
  return html`<section ref=${sectionRef} class=${isPresenting.value ? "lesson presented" : "lesson"} id="lesson" aria-label=${`Lesson ${playedLesson.id}`} aria-live="polite">
    <h2>${playedLesson.id}: ${playedLesson.title} <small>${part ? `part ${playedLesson.part + 1} of ${playedLesson.parts.length}` : "the end"}</small></h2>
    ${part ? html`<${View} key=${playedLesson.part} part=${part} playedLesson=${playedLesson} />` : html`<${End} playedLesson=${playedLesson} />`}</section>`;
}

const Next = ({ playedLesson }) => html`<button id="lesson-next" class="primary" disabled=${busy.value} onClick=${() => act(goToNextPart)}>${playedLesson.part + 1 < playedLesson.parts.length ? "Next part" : "Finish"}</button>`;

/** A program or commands of a part; a program can be saved. */
const Code = ({ part }) => part.code && html`<pre tabindex="0" role="group" aria-label="To be typed into a terminal">${withAddresses(part.code)}</pre>
  ${part.file && html`<p><a class="link" id="lesson-code" download=${part.file} href=${`data:text/plain;charset=utf-8,${encodeURIComponent(part.code)}`}>Save it as ${part.file}</a></p>`}`;

const Hints = ({ part, playedLesson }) => html`${part.hints.slice(0, playedLesson.hints).map((hint) => html`<p class="hint">Hint: ${withAddresses(hint)}</p>`)}
  ${playedLesson.hints < part.hints.length && html`<button id="lesson-hint" onClick=${() => updateLesson({ hints: playedLesson.hints + 1 })}>Hint</button>`}
  <button id="lesson-leave" onClick=${leaveLesson}>Leave the lesson</button>`;

function QuestionPart({ part, playedLesson }) {
  const [guess, setGuess] = useState("");
  const answerWith = (prediction) => act(() => reveal(prediction));
  if (playedLesson.shown) return html`<${PredictionResult} part=${part} playedLesson=${playedLesson} />`;
  if (playedLesson.doing) {
    return html`<p id="lesson-do">${withAddresses(part.do)}</p>
      <button id="lesson-done" class="primary" disabled=${busy.value} onClick=${() => act(() => showAnswer(playedLesson.doing.guess))}>It is done</button> <button id="lesson-leave" onClick=${leaveLesson}>Leave the lesson</button>`;
  }
  return html`<p>${withAddresses(part.say)}</p><${Code} part=${part} />
    ${part.ask && html`<fieldset><legend>${part.ask}</legend>${Object.entries(part.choices).map(([key, text]) => html`
      <label><input type="radio" name="guess" value=${key} checked=${guess === key} onChange=${() => setGuess(key)} /> ${text}</label>`)}</fieldset>`}
    ${part.ask
      ? html`<button id="lesson-answer" class="primary" disabled=${!guess || busy.value} onClick=${() => answerWith(guess)}>This is my prediction: go on</button>
        ${isPresenting.value && html`<button id="lesson-show" disabled=${busy.value} onClick=${() => answerWith("")}>Show the answer</button>`}`
      : html`<button id="lesson-go" class="primary" disabled=${busy.value} onClick=${() => answerWith("")}>Go on</button>`}
    <${Hints} part=${part} playedLesson=${playedLesson} />`;
}

/** The prediction next to the answer. */
function PredictionResult({ part, playedLesson }) {
  const { answer, guess } = playedLesson.shown;
  const isRight = guess === answer?.key;
  return html`
    ${answer && html`<dl class="predicted">${guess && html`<dt>You said</dt><dd>${part.choices[guess]}.</dd>`}
      <dt>The run</dt><dd class=${isRight ? "right" : guess ? "wrong" : ""}>${answer.text}. ${guess && html`<b>${isRight ? "✓ Right." : "✕ It is different."}</b>`}</dd></dl>`}
    ${answer && guess && !isRight && part.mistakes[guess] && html`<p>${part.mistakes[guess]}</p>`}
    <p>${withAddresses(part.then)}</p><${Next} playedLesson=${playedLesson} />`;
}

function GoalPart({ part, playedLesson }) {
  const isMet = playedLesson.cluster ? playedLesson.met : events.some((event) => event.k === "goal" && event.d.met && event.d.goal === part.say);
  if (isMet) {
    return html`<p id="lesson-met" class="right"><b>✓ Goal reached.</b> ${withAddresses(part.then)}</p>
      ${part.saves && html`<p><a id="lesson-save" class="link" download=${`${storyName(playedLesson)}.yaml`} href=${`/api/v1${storyPath(part, playedLesson)}`}
        onClick=${(event) => {
          if (!isSite) return; // from a server, the browser downloads it by itself
          event.preventDefault();
          void saveAnswer(storyPath(part, playedLesson), `${storyName(playedLesson)}.yaml`);
        }}>Save it as a story of your own</a>:
        then <code>txnsim scenario run ${storyName(playedLesson)}.yaml --armed</code> plays it again.</p>`}
      <${Next} playedLesson=${playedLesson} />`;
  }
  const attempt = (action) => act(async () => {
    if (playedLesson.cluster) {
      await alterCluster(action);
      const { met, goal, because } = await askPartState();
      return updateLesson({ tried: { ...action, goal, because }, met });
    }
    for (const step of action.steps) await drive(step);
    goLive();
    return updateLesson({ tried: action });
  });
  return html`<p>${withAddresses(part.say)}</p><${Code} part=${part} />
    ${playedLesson.tried && html`<p class="wrong"><b>✕ Not yet.</b> ${withAddresses(playedLesson.tried.then)} ${!playedLesson.cluster && html`<button class="link" disabled=${!drivenRun.value?.back} onClick=${() => act(() => takeBack(playedLesson.tried))}>Take it back</button>`}</p>
      ${playedLesson.tried.goal && html`<ul>${playedLesson.tried.goal.map((goalFact) => goalFact.found === goalFact.wanted ? html`<li class="right">✓ ${goalFact.fact}: ${goalFact.found}</li>` : html`<li class="wrong">✕ ${goalFact.fact}: ${goalFact.found}; wanted: ${goalFact.wanted}</li>`)}${playedLesson.tried.because.map((sentence) => html`<li>${sentence}</li>`)}</ul>`}`}
    ${part.actions.map((action, n) => html`<p><button id=${`lesson-action-${n}`} disabled=${busy.value} onClick=${() => attempt(action)}>${withAddresses(action.text)}</button></p>`)}
    <${Hints} part=${part} playedLesson=${playedLesson} />`;
}

/** The path of the story that the learner has made. */
const storyPath = (part, playedLesson) => `/runs/${source.value.id}/story?${new URLSearchParams({ name: storyName(playedLesson), verdict: part.saves })}`;
const storyName = ({ id }) => `my-${id.toLowerCase()}`;

/** Take an action back: the run goes back by its steps. */
async function takeBack(action) {
  await command("back", { stops: action.steps.length });
  updateLesson({ tried: null });
}

function End({ playedLesson }) {
  const trueCount = playedLesson.predictions.filter(Boolean).length;
  return html`<p id="lesson-end" class="right"><b>✓ That was ${playedLesson.id}.</b> ${playedLesson.predictions.length > 0 && `${trueCount} of your ${playedLesson.predictions.length} predictions came true.`}</p>
    <p>You can look around in all views, step back, or try something else.</p>
    <button id="lesson-leave" class="primary" onClick=${leaveLesson}>Leave the lesson</button>`;
}
