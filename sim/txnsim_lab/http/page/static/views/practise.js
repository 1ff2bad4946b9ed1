// @ts-check
// The button that makes a transaction hang and shows how, and what a view has in place of its content while there is none.

import { useState } from "preact/hooks";
import { effect } from "@preact/signals";
import { changeCluster, playRun, postJson, runTask } from "../api.js";
import { html } from "../html.js";
import { awaitedStepCount, goToStep, isPlaying, prefersReducedMotion } from "../player.js";
import { chooseView, chosenPartition, chosenTransactionalId, eventCount, goToEvent, goToNewest, isHangAwaited, shownIndex, storyNotes, traceOrigin, waitingIndex } from "../store.js";

/** How many steps the story of a hang has. */
const HANG_STEP_COUNT = 6;

/** Once all steps of the hang have arrived, show its first step, and play on unless motion is unwanted. */
function playHangFromStep(stepNumber) {
  const stopWatching = effect(() => {
    if (!eventCount.value || storyNotes().length < stepNumber - 1 + HANG_STEP_COUNT) return;
    queueMicrotask(() => {
      stopWatching();
      waitingIndex.value = null;
      goToStep(stepNumber + Math.max(0, Math.min(awaitedStepCount.peek(), HANG_STEP_COUNT - 1)));
      isPlaying.value = !awaitedStepCount.peek() && !prefersReducedMotion();
    });
  });
}

/** Play the story of a hang on a site, where there is no cluster. */
const playHang = () => runTask(async () => {
  if (!(await playRun("z01", "V-", "armed"))) return;
  goToStep(1);
  isPlaying.value = !prefersReducedMotion();
});

/** A button that makes a transaction hang on the live cluster, and shows it. */
export function PractiseButton({ isAgain = false, children }) {
  const [isBusy, setBusy] = useState(false);
  return html`<button id="practise" class=${isAgain ? "" : "primary"} aria-busy=${isBusy} onClick=${() => {
    chooseView("stage"); // now: when the answer arrives, the reader may be in another view
    if (traceOrigin.value.kind === "site") return void playHang();
    const stepsBefore = storyNotes().length;
    if (isBusy) return;
    awaitedStepCount.value = 0;
    setBusy(true);
    void changeCluster(() => postJson("/practise"), ({ hangs }) => {
      chosenPartition.value = hangs;
      chosenTransactionalId.value = null;
      playHangFromStep(stepsBefore + 1);
      return ""; // the story says it, from its first step
    }).then((outcome) => {
      setBusy(false);
      if (outcome === null && isHangAwaited.value) goToNewest(); // it has failed, and that is said
    });
    if (eventCount.value) goToEvent((waitingIndex.value = shownIndex.value));
  }}>${isBusy ? "A transaction is being made to hang …" : isAgain ? "Make another one hang" : children}</button>`;
}

/** What a view has while there is nothing to show: what will stand there, and a way to it. */
export const NothingYet = ({ title, children }) => html`<section class="nothing"><h2>${title}</h2><p>${children}</p>
  ${["live", "site"].includes(traceOrigin.value.kind) && html`<p><${PractiseButton}>Watch a transaction hang, step by step<//></p>`}</section>`;
