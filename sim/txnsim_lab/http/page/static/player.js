// @ts-check
// Play: the cursor moves by itself, from step to step of a story or from one telling event to the next.

import { effect, signal } from "@preact/signals";
import { stepAt } from "./stage.js";
import { shownIndex, count, events, goTo, goLive, storyNotes, notice, source } from "./store.js";

export const SPEEDS = [0.5, 1, 2, 4];
const PAUSE_MS = 700;
/** How long a step of a story is shown: some time to look, and time to read its sentence at some 200 words a minute. */
const STEP_MS = 2000, LETTER_MS = 50;
export const readingMs = (sentence) => STEP_MS + LETTER_MS * sentence.length;
/** Kinds of events at which play pauses; it skips all others. */
const TELLING_KINDS = new Set([
  "note", "client.call", "client.deliver", "txn.complete", "txn.append", "log.append", "log.reject", "log.truncate", "marker.owed",
  "marker.written", "marker.refused", "msg.hold", "msg.drop", "fault.arm", "fault.release", "node.up", "node.down", "input", "check.violation",
]);

export const playing = signal(false);
export const speed = signal(1);

/** Whether the user has asked their system for reduced motion. */
export const prefersStillness = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Start or stop playing; from the start if the end is reached. */
export function togglePlaying() {
  if (!playing.value && shownIndex.value >= count.value - 1) {
    if (storyNotes().length) goToStep(1);
    else goTo(0);
  }
  playing.value = !playing.value;
}

/** Go to the end of a step of the story; false where there is no such step. */
export function goToStep(stepNumber) {
  const noteIndices = storyNotes();
  if (stepNumber < 1 || stepNumber > noteIndices.length) return false;
  if (stepNumber === noteIndices.length && source.value.kind === "live") goLive();
  else goTo((noteIndices[stepNumber] ?? events.length) - 1);
  return true;
}
export function goBySteps(stepCount) {
  notice.value = ""; // it belongs to the step before
  return goToStep((stepAt(shownIndex.value)?.number ?? 0) + stepCount);
}

function playNext() {
  if (storyNotes().length) {
    playing.value = goBySteps(1) && (stepAt(shownIndex.value)?.number ?? 0) < storyNotes().length;
    return;
  }
  const end = count.value - 1;
  let next = shownIndex.value + 1;
  while (next < end && !TELLING_KINDS.has(events[next].k)) next += 1;
  goTo(Math.min(next, end));
  if (next >= end) playing.value = false;
}

function pauseMs() {
  const step = stepAt(shownIndex.peek());
  return step ? readingMs(events[step.from].d.text) : PAUSE_MS;
}

let playTimer = 0;
function scheduleNext() {
  playTimer = setTimeout(() => {
    playNext();
    if (playing.peek()) scheduleNext();
  }, pauseMs() / speed.peek());
}
effect(() => {
  clearTimeout(playTimer);
  if (playing.value && speed.value) scheduleNext();
});
