// @ts-check
// A lesson. Each part is a text and perhaps a question, whose answer the story then shows; or a goal to reach. The
// server reads the right answer from the trace of the run. A lesson with a `cluster` has no story: it is played on
// the live cluster, with the learner's own programs.

import { useEffect, useRef, useState } from "preact/hooks";
import { runTask, askServer, compareWithRun, sendRunCommand, sendInput, followLiveTrace, playRun, postJson, saveAnswer } from "../api.js";
import { html } from "../html.js";
import { batch } from "@preact/signals";
import { isSite } from "../site.js";
import { askedFact, isRunBusy, chooseView, comparison, drivenRun, events, lesson, goToNewest, isPresenting, traceOrigin } from "../store.js";

const PROGRESS_STORAGE_KEY = "txnsim-lessons";
/** What this browser remembers: lesson -> [predictions that came true, predictions]. */
function storedProgress() {
  try {
    return JSON.parse(localStorage.getItem(PROGRESS_STORAGE_KEY) ?? "{}");
  } catch {
    return {}; // the browser stores nothing
  }
}

/** Remember the result of a lesson. */
function keepProgress({ id, predictions }) {
  try {
    localStorage.setItem(PROGRESS_STORAGE_KEY, JSON.stringify({ ...storedProgress(), [id]: [predictions.filter(Boolean).length, predictions.length] }));
  } catch {
    return; // the browser stores nothing; the lesson goes on
  }
}

/** The lessons of the server; none until it has answered. */
function useLessons() {
  const [lessons, setLessons] = useState([]);
  useEffect(() => {
    runTask(async () => setLessons(await askServer("/lessons")));
  }, []);
  return lessons;
}

/** The lesson that the first screen offers. */
const FIRST_LESSON_ID = "L1";
export function FirstLesson() {
  const firstLesson = useLessons().find(({ id }) => id === FIRST_LESSON_ID); // on a site it takes seconds until they are there
  return html`<button id=${`lesson-${FIRST_LESSON_ID}`} onClick=${() => runTask(() => (firstLesson ? beginLesson(firstLesson) : resumeLesson(FIRST_LESSON_ID, 0)))}>Lesson 1: find it and end it ${firstLesson && `(${firstLesson.minutes} min)`} ${progressText(FIRST_LESSON_ID)}</button>`;
}

const progressText = (id) => {
  const lessonScore = storedProgress()[id];
  return lessonScore ? html`<small>done: ${lessonScore.join(" of ")} predictions came true</small>` : "";
};

/** The lessons as a list: number, title, what it shows, minutes. */
export function Lessons() {
  const lessons = useLessons();
  const playableLessons = lessons.filter((lessonInfo) => !isSite || !lessonInfo.cluster);
  if (!lessons.length) return html`<span class="hint" role="status">Reading the lessons …</span>`;
  const clusterLessons = lessons.filter((lessonInfo) => !playableLessons.includes(lessonInfo));
  return html`<ul class="lessons">${playableLessons.map((lessonInfo) => html`<li key=${lessonInfo.id}><button class="lesson-choice" id=${`lesson-${lessonInfo.id}`} onClick=${() => runTask(() => beginLesson(lessonInfo))}>
      <b>${lessonInfo.id}: ${lessonInfo.title}</b><span class="minutes">${lessonInfo.minutes} min</span><span class="shows">${lessonInfo.shows} ${progressText(lessonInfo.id)}</span></button></li>`)}</ul>
    ${clusterLessons.length > 0 && html`<p id="lessons-elsewhere" class="hint">${clusterLessons.map(({ id }) => id).join(" and ")} need a cluster that your own programs can talk to, so they are not here: <code>txnsim lesson ${clusterLessons[0].id}</code> starts one.</p>`}`;
}

/** The number of the part at which the story of a part begins. */
const storyStartPart = ({ parts }, part) => Math.max(0, parts.findLastIndex((lessonPart, n) => n <= part && lessonPart.story));

/** Begin a lesson at a part: its story is played up to there, with the solutions of the goals before it. */
async function beginLesson(lessonInfo, part = 0) {
  if (lessonInfo.cluster) return beginOnCluster(lessonInfo, part);
  const storyStartIndex = storyStartPart(lessonInfo, part);
  const lessonStory = lessonInfo.parts[storyStartIndex]?.story ?? lessonInfo.story;
  const replayedInputs = [];
  let stepsPlayed = 0;
  for (const { until, solution, actions } of lessonInfo.parts.slice(storyStartIndex, part)) {
    stepsPlayed = Math.max(stepsPlayed, until);
    for (const actionNumber of solution) for (const inputStep of actions[actionNumber - 1].steps) replayedInputs.push({ before: stepsPlayed, step: inputStep });
  }
  if (!(await playRun(lessonStory.scenario, lessonStory.run, lessonStory.take, 1, { paused: true, of: `${lessonInfo.id}:${part}`, inputs: replayedInputs }))) return;
  if (stepsPlayed) await sendRunCommand("go", { steps: stepsPlayed });
  batch(() => {
    lesson.value = { ...lessonInfo, part, at: stepsPlayed, shown: null, hints: 0, tried: null, predictions: lesson.value?.predictions ?? [] };
    chooseView("stage");
  });
  await playBeforeQuestion();
}

/** Facts that the stage hides while a question asks about them. So the story may be played before the question. */
const FACTS_HIDDEN_BY_STAGE = new Set(["lso", "cause", "gets", "withheld", "state", "epoch", "known-epoch", "markers"]);

/** Play what leads to the answer before the question, if the stage hides the answer. */
async function playBeforeQuestion() {
  const { part, parts, at } = lesson.value;
  const { ask: question, fact, until, beside: besideRun } = parts[part];
  if (!question || besideRun || until <= at || !FACTS_HIDDEN_BY_STAGE.has(fact.split(" ")[0])) return;
  updateLesson({ at: until });
  await sendRunCommand("go", { steps: until - at });
}

/** Begin a lesson on the live cluster; at its first part, the server creates its topics anew. */
async function beginOnCluster(lessonInfo, part) {
  if (isSite) throw new Error(`${lessonInfo.id} needs a cluster that your own programs can talk to: txnsim lesson ${lessonInfo.id} starts one`);
  const { bootstrap } = await postJson(`/lessons/${lessonInfo.id}/begin`, { part });
  void followLiveTrace(); // it ends what was shown before, including a lesson
  batch(() => {
    lesson.value = { ...lessonInfo, part, at: 0, shown: null, hints: 0, tried: null, doing: null, met: false, predictions: [], bootstrap };
    chooseView("stage");
  });
}

/** Fill the addresses of the cluster into a text. */
const fillAddresses = (text) => text.replaceAll("{bootstrap}", lesson.value.bootstrap ?? "").replaceAll("{http}", location.origin);

/** Arm and disarm rules on the live cluster, and advance its clock. A rule that is in force is armed anew. */
async function applyLessonRules({ arms, disarms = [], advance_ms = 0 }) {
  const armedRuleIds = new Set((await askServer("/faults")).map(({ rule }) => rule.id));
  for (const ruleId of new Set([...disarms, ...arms.map((rule) => rule.id)])) if (armedRuleIds.has(ruleId)) await askServer(`/faults/${ruleId}`, { method: "DELETE" });
  for (const newRule of arms) await postJson("/faults", newRule);
  if (advance_ms) await postJson("/clock", { advance_ms });
}

/** Leave the lesson, and disarm the rules that it has armed on the live cluster. */
const leaveLesson = () => runTask(async () => {
  const { cluster, parts } = lesson.value;
  const lessonRuleIds = cluster ? parts.flatMap(({ arms = [], actions }) => [...arms, ...actions.flatMap((action) => action.arms ?? [])]).map(({ id }) => id) : [];
  if (lessonRuleIds.length) await applyLessonRules({ arms: [], disarms: lessonRuleIds });
  void followLiveTrace();
});

/** Ask the server how a part stands on the live cluster. */
const askPartState = () => askServer(`/lessons/${lesson.value.id}/parts/${lesson.value.part}/now`);

/** Take a prediction on the live cluster. The learner may have to do something before there is an answer. */
async function predictOnCluster(guess) {
  const lessonPart = lesson.value.parts[lesson.value.part];
  await applyLessonRules(lessonPart);
  if (lessonPart.do) return updateLesson({ doing: { guess }, hints: 0 });
  return showClusterAnswer(guess);
}

/** Ask for the answer of the part on the live cluster, and show it. */
async function showClusterAnswer(guess) {
  const { predictions } = lesson.value;
  const { answer } = await askPartState();
  updateLesson({ shown: { guess, answer }, doing: null, hints: 0, predictions: answer && guess ? [...predictions, guess === answer.key] : predictions });
}

/** Begin the part of a lesson that an address names. */
export async function resumeLesson(id, part) {
  const lessonInfo = (await askServer("/lessons")).find((candidate) => candidate.id === id);
  if (!lessonInfo) throw new Error(`there is no lesson ${id}`);
  await beginLesson(lessonInfo, Math.max(0, Math.min(part, lessonInfo.parts.length - 1)));
}

const updateLesson = (changes) => (lesson.value = { ...lesson.value, ...changes });

/** Let the story go on, and show the answer to the question. */
async function revealAnswer(guess) {
  if (lesson.value.cluster) return predictOnCluster(guess);
  const { id, part, parts, at, predictions } = lesson.value;
  const lessonPart = parts[part];
  const runOrigin = traceOrigin.value;
  if (lessonPart.until > at) await sendRunCommand("go", { steps: lessonPart.until - at });
  const questionAnswer = lessonPart.fact ? await askServer(`/lessons/${id}/parts/${part}/answer?${new URLSearchParams({ of: runOrigin.id, take: runOrigin.take })}`) : null;
  if (lessonPart.beside) await compareWithRun(lessonPart.beside.run);
  return batch(() => {
    chooseView(lessonPart.view);
    updateLesson({ shown: { guess, answer: questionAnswer }, hints: 0, at: Math.max(at, lessonPart.until), predictions: questionAnswer && guess ? [...predictions, guess === questionAnswer.key] : predictions });
  });
}

/** Go to the next part, which may begin another story. */
async function goToNextPart() {
  const playedLesson = lesson.value;
  const nextPartIndex = playedLesson.part + 1;
  comparison.value = null;
  if (nextPartIndex === playedLesson.parts.length) keepProgress(playedLesson);
  if (!playedLesson.parts[nextPartIndex]?.story) {
    updateLesson({ part: nextPartIndex, shown: null, hints: 0, tried: null, met: false });
    return playedLesson.parts[nextPartIndex] && !playedLesson.cluster ? playBeforeQuestion() : null;
  }
  const { predictions } = playedLesson;
  await beginLesson(playedLesson, nextPartIndex);
  return updateLesson({ predictions });
}

export function Lesson() {
  const playedLesson = lesson.value;
  const lessonElementRef = useRef(null);
  useEffect(() => { // the pressed button is gone, or was disabled: focus the next one
    if (document.activeElement === document.body) lessonElementRef.current?.querySelector("button.primary:not(:disabled), [name=guess], [id^=lesson-action]")?.focus();
  }, [playedLesson?.part, playedLesson?.shown, playedLesson?.tried, playedLesson?.doing, playedLesson?.met, isRunBusy.value]);
  if (!playedLesson) return null;
  const lessonPart = playedLesson.parts[playedLesson.part];
  const PartView = lessonPart?.goal && Object.keys(lessonPart.goal).length ? GoalPart : QuestionPart;
  return html`<section ref=${lessonElementRef} class=${isPresenting.value ? "lesson presented" : "lesson"} id="lesson" aria-label=${`Lesson ${playedLesson.id}`} aria-live="polite">
    <h2>${playedLesson.id}${askedFact.value ? "" : `: ${playedLesson.title}`} <small>${lessonPart ? `part ${playedLesson.part + 1} of ${playedLesson.parts.length}` : "the end"}</small></h2>
    ${lessonPart ? html`<${PartView} key=${playedLesson.part} part=${lessonPart} playedLesson=${playedLesson} />` : html`<${LessonEnd} playedLesson=${playedLesson} />`}</section>`;
}

const NextPartButton = ({ playedLesson }) => html`<button id="lesson-next" class="primary" disabled=${isRunBusy.value} onClick=${() => runTask(goToNextPart)}>${playedLesson.part + 1 < playedLesson.parts.length ? "Next part" : "Finish"}</button>`;

/** A program or commands of a part; a program can be saved. */
const PartCode = ({ part }) => part.code && html`<pre tabindex="0" role="group" aria-label="To be typed into a terminal">${fillAddresses(part.code)}</pre>
  ${part.file && html`<p><a class="link" id="lesson-code" download=${part.file} href=${`data:text/plain;charset=utf-8,${encodeURIComponent(part.code)}`}>Save it as ${part.file}</a></p>`}`;

const HintButtons = ({ part, playedLesson }) => html`${part.hints.slice(0, playedLesson.hints).map((hint) => html`<p class="hint">Hint: ${fillAddresses(hint)}</p>`)}
  ${playedLesson.hints < part.hints.length && html`<button id="lesson-hint" onClick=${() => updateLesson({ hints: playedLesson.hints + 1 })}>Hint</button>`}
  <button id="lesson-leave" onClick=${leaveLesson}>Leave the lesson</button>`;

function QuestionPart({ part, playedLesson }) {
  const [guess, setGuess] = useState("");
  const submitPrediction = (prediction) => runTask(() => revealAnswer(prediction));
  if (playedLesson.shown) return html`<${PredictionResult} part=${part} playedLesson=${playedLesson} />`;
  if (playedLesson.doing) {
    return html`<p id="lesson-do">${fillAddresses(part.do)}</p>
      <button id="lesson-done" class="primary" disabled=${isRunBusy.value} onClick=${() => runTask(() => showClusterAnswer(playedLesson.doing.guess))}>It is done</button> <button id="lesson-leave" onClick=${leaveLesson}>Leave the lesson</button>`;
  }
  return html`<p>${fillAddresses(part.say)}</p><${PartCode} part=${part} />
    ${part.watch && html`<p class="watch"><b>Watch for:</b> ${part.watch}.</p>`}
    ${part.ask && html`<fieldset><legend>${part.ask}</legend>${Object.entries(part.choices).map(([key, text]) => html`
      <label><input type="radio" name="guess" value=${key} checked=${guess === key} onChange=${() => setGuess(key)} /> ${text}</label>`)}</fieldset>`}
    ${part.ask
      ? html`<button id="lesson-answer" class="primary" disabled=${!guess || isRunBusy.value} onClick=${() => submitPrediction(guess)}>This is my prediction: go on</button>
        ${isPresenting.value && html`<button id="lesson-show" disabled=${isRunBusy.value} onClick=${() => submitPrediction("")}>Show the answer</button>`}`
      : html`<button id="lesson-go" class="primary" disabled=${isRunBusy.value} onClick=${() => submitPrediction("")}>Go on</button>`}
    <${HintButtons} part=${part} playedLesson=${playedLesson} />`;
}

/** The prediction next to the answer. */
function PredictionResult({ part, playedLesson }) {
  const { answer, guess } = playedLesson.shown;
  const isPredictionRight = guess === answer?.key;
  return html`
    ${answer && html`<dl class="predicted">${guess && html`<dt>You said</dt><dd>${part.choices[guess]}.</dd>`}
      <dt>The run</dt><dd class=${isPredictionRight ? "right" : guess ? "wrong" : ""}>${answer.text}. ${guess && html`<b>${isPredictionRight ? "✓ Right." : "✕ It is different."}</b>`}</dd></dl>`}
    ${answer && guess && !isPredictionRight && part.mistakes[guess] && html`<p>${part.mistakes[guess]}</p>`}
    <p>${fillAddresses(part.then)}</p><${NextPartButton} playedLesson=${playedLesson} />`;
}

function GoalPart({ part, playedLesson }) {
  const isGoalMet = playedLesson.cluster ? playedLesson.met : events.some((event) => event.k === "goal" && event.d.met && event.d.goal === part.say);
  if (isGoalMet) {
    return html`<p id="lesson-met" class="right"><b>✓ Goal reached.</b> ${fillAddresses(part.then)}</p>
      ${part.saves && html`<p><a id="lesson-save" class="link" download=${`${ownStoryName(playedLesson)}.yaml`} href=${`/api/v1${ownStoryPath(part, playedLesson)}`}
        onClick=${(event) => {
          if (!isSite) return; // from a server, the browser downloads it by itself
          event.preventDefault();
          void saveAnswer(ownStoryPath(part, playedLesson), `${ownStoryName(playedLesson)}.yaml`);
        }}>Save it as a story of your own</a>:
        then <code>txnsim scenario run ${ownStoryName(playedLesson)}.yaml --armed</code> plays it again.</p>`}
      <${NextPartButton} playedLesson=${playedLesson} />`;
  }
  const tryAction = (action) => runTask(async () => {
    if (playedLesson.cluster) {
      await applyLessonRules(action);
      const { met, goal, because } = await askPartState();
      return updateLesson({ tried: { ...action, goal, because }, met });
    }
    for (const inputStep of action.steps) await sendInput(inputStep);
    goToNewest();
    return updateLesson({ tried: action });
  });
  return html`<p>${fillAddresses(part.say)}</p><${PartCode} part=${part} />
    ${playedLesson.tried && html`<p class="wrong"><b>✕ Not yet.</b> ${fillAddresses(playedLesson.tried.then)} ${!playedLesson.cluster && html`<button class="link" disabled=${!drivenRun.value?.back} onClick=${() => runTask(() => takeActionBack(playedLesson.tried))}>Take it back</button>`}</p>
      ${playedLesson.tried.goal && html`<ul>${playedLesson.tried.goal.map((goalFact) => goalFact.found === goalFact.wanted ? html`<li class="right">✓ ${goalFact.fact}: ${goalFact.found}</li>` : html`<li class="wrong">✕ ${goalFact.fact}: ${goalFact.found}; wanted: ${goalFact.wanted}</li>`)}${playedLesson.tried.because.map((sentence) => html`<li>${sentence}</li>`)}</ul>`}`}
    ${part.actions.map((action, n) => html`<p><button id=${`lesson-action-${n}`} disabled=${isRunBusy.value} onClick=${() => tryAction(action)}>${fillAddresses(action.text)}</button></p>`)}
    <${HintButtons} part=${part} playedLesson=${playedLesson} />`;
}

/** The path of the story that the learner has made. */
const ownStoryPath = (part, playedLesson) => `/runs/${traceOrigin.value.id}/story?${new URLSearchParams({ name: ownStoryName(playedLesson), verdict: part.saves })}`;
const ownStoryName = ({ id }) => `my-${id.toLowerCase()}`;

/** Take an action back: the run goes back by its steps. */
async function takeActionBack(action) {
  await sendRunCommand("back", { stops: action.steps.length });
  updateLesson({ tried: null });
}

function LessonEnd({ playedLesson }) {
  const truePredictionCount = playedLesson.predictions.filter(Boolean).length;
  return html`<p id="lesson-end" class="right"><b>✓ That was ${playedLesson.id}.</b> ${playedLesson.predictions.length > 0 && `${truePredictionCount} of your ${playedLesson.predictions.length} predictions came true.`}</p>
    <p>You can look around in all views, step back, or try something else.</p>
    <button id="lesson-leave" class="primary" onClick=${leaveLesson}>Leave the lesson</button>`;
}
