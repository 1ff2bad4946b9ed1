// @ts-check
// Play: the cursor moves by itself, from step to step of a story or from one telling event to the next.

import { effect, signal } from "@preact/signals";
import { stepAt } from "./stage.js";
import { shownIndex, eventCount, events, goToEvent, isHangAwaited, goToNewest, storyNotes, noticeText, traceOrigin } from "./store.js";

export const PLAY_SPEEDS = [0.5, 1, 2, 4];
const EVENT_PAUSE_MS = 700;
/** How long a step of a story is shown: some time to look, and time to read its sentence at some 200 words a minute. */
const STEP_READING_MS = 2000, LETTER_READING_MS = 50;
export const readingMs = (sentence) => STEP_READING_MS + LETTER_READING_MS * sentence.length;
/** Kinds of events at which play pauses; it skips all others. */
const PAUSE_KINDS = new Set([
  "note", "client.call", "client.deliver", "txn.complete", "txn.append", "log.append", "log.reject", "log.truncate", "marker.owed",
  "marker.written", "marker.refused", "msg.hold", "msg.drop", "fault.arm", "fault.release", "node.up", "node.down", "input", "check.violation",
]);

export const isPlaying = signal(false);
export const playSpeed = signal(1);
/** How many steps on the reader wants to be when the story that is being made has arrived. */
export const awaitedStepCount = signal(0);

/** Whether the user has asked their system for reduced motion. */
export const prefersReducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Start or stop playing; from the start if the end is reached. */
export function togglePlaying() {
  if (!isPlaying.value && shownIndex.value >= eventCount.value - 1) {
    if (storyNotes().length) goToStep(1);
    else goToEvent(0);
  }
  isPlaying.value = !isPlaying.value;
}

/** Go to the end of a step of the story; false where there is no such step. */
export function goToStep(stepNumber) {
  const noteIndices = storyNotes();
  if (stepNumber < 1 || stepNumber > noteIndices.length) return false;
  if (stepNumber === noteIndices.length && traceOrigin.value.kind === "live") goToNewest();
  else goToEvent((noteIndices[stepNumber] ?? events.length) - 1);
  return true;
}
/** Go to an event by hand: play stops. */
export function chooseEvent(index) {
  isPlaying.value = false;
  goToEvent(index);
}
/** Go by steps of the story by hand: play stops. Beyond the last one nothing happens; false where there is no story. */
export function chooseStep(stepCount) {
  isPlaying.value = false;
  if (isHangAwaited.value) {
    awaitedStepCount.value += stepCount;
    return true;
  }
  return goBySteps(stepCount) || storyNotes().length > 0;
}
function goBySteps(stepCount) {
  noticeText.value = ""; // it belongs to the step before
  return goToStep((stepAt(shownIndex.value)?.number ?? 0) + stepCount);
}

function playNext() {
  if (storyNotes().length) {
    isPlaying.value = goBySteps(1) && (stepAt(shownIndex.value)?.number ?? 0) < storyNotes().length;
    return;
  }
  const newestIndex = eventCount.value - 1;
  let nextIndex = shownIndex.value + 1;
  while (nextIndex < newestIndex && !PAUSE_KINDS.has(events[nextIndex].k)) nextIndex += 1;
  goToEvent(Math.min(nextIndex, newestIndex));
  if (nextIndex >= newestIndex) isPlaying.value = false;
}

function pauseMs() {
  const shownStep = stepAt(shownIndex.peek());
  return shownStep ? readingMs(events[shownStep.from].d.text) : EVENT_PAUSE_MS;
}

let playTimer = 0;
function scheduleNext() {
  playTimer = setTimeout(() => {
    playNext();
    if (isPlaying.peek()) scheduleNext();
  }, pauseMs() / playSpeed.peek());
}
effect(() => {
  clearTimeout(playTimer);
  if (isPlaying.value && playSpeed.value) scheduleNext();
});
