// @ts-check
// The story of the shown run: one sentence at a time, right below the picture. The buttons that go from step to step stand
// at the foot of every view.

import { runTask, compareWithRun, playRun } from "../api.js";
import { html } from "../html.js";
import { chooseEvent, chooseStep, isPlaying, togglePlaying } from "../player.js";
import { hasUserData, stepAt } from "../stage.js";
import { comparison, drivenRun, events, isHangAwaited, judgedMoment, leaderWritesOf, lesson, shownIndex, storyNotes, traceOrigin } from "../store.js";
import { tapeOf } from "../tape.js";
import { Disclosure } from "./folded.js";
import { PractiseButton } from "./practise.js";
import { withTerms } from "./term.js";

/** Whether the stage tells a story below its picture. */
export const hasStoryBelowPicture = () => storyNotes().length > 0 && !lesson.value && !comparison.value && hasUserData(judgedMoment.value.clusterState);

/** Where in its story the shown event is. */
const StepPosition = ({ isOver = false }) => html`<span class="step-of">${isOver ? `After step ${storyNotes().length}` : `Step ${stepAt(shownIndex.value)?.number ?? 0}${isHangAwaited.value ? "" : ` of ${storyNotes().length}`}`}</span>`;

/** The button that plays; in a story also those that go from step to step, and where in it the shown event is, if the story does not tell it. */
export function StepControls({ isPositionTold }) {
  void shownIndex.value; // with another run come other steps
  const stepCount = storyNotes().length;
  const playButton = html`<button id="play" class=${stepCount ? "primary" : ""} aria-pressed=${isPlaying.value} onClick=${togglePlaying} title="Play, or pause (Space)">${isPlaying.value ? "❚❚ pause" : "▶ play"}</button>`;
  if (!stepCount) return playButton;
  return html`<button id="step-back" onClick=${() => chooseStep(-1)}>◀ step</button>
    ${playButton}
    <button id="step-on" onClick=${() => chooseStep(1)}>step ▶</button>
    ${!isPositionTold && html`<${StepPosition} />`}`;
}

/** What the judge says of an operator's newest marker on a partition after the last step of the story; undefined if there is none. */
function repairAfterStory({ clusterState, index, serverExplanation }, partitionName) {
  const lastNote = storyNotes().at(-1);
  if (lastNote === undefined || index < lastNote || !partitionName || !leaderWritesOf(partitionName).length) return undefined;
  return tapeOf(partitionName, index, clusterState.logs[partitionName]).cells.filter((cell) => cell.isMarker && cell.n > lastNote).map((cell) => serverExplanation?.words.operator_markers?.[`${partitionName} ${cell.first}`]?.sentence).findLast(Boolean);
}

/** Compare the story without verification with the same story where the leader verifies. */
const showPrevention = () => runTask(async () => {
  if (await playRun("z01", "V-", "armed")) await compareWithRun("V+");
});

export function Story({ shownMoment, partitionName }) {
  const noteIndices = storyNotes();
  if (!hasStoryBelowPicture()) return null;
  const shownNumber = stepAt(shownMoment.index)?.number ?? 0;
  const repairSentence = repairAfterStory(shownMoment, partitionName);
  const nextStep = drivenRun.value?.next;
  return html`<section class="story" aria-label="What happens">
    <p><${StepPosition} isOver=${Boolean(repairSentence)} /></p>
    <p class="now" aria-live="polite">${withTerms(repairSentence ?? (shownNumber ? events[noteIndices[shownNumber - 1]].d.text : "The story has not begun at this event."))}</p>
    ${traceOrigin.value.kind === "live" && shownNumber === noteIndices.length && html`<p class="next"><button id="prevent" onClick=${showPrevention}>How to prevent it: compare with a leader that asks first</button> <${PractiseButton} isAgain=${true} /></p>`}
    <${Disclosure} id="steps" label=${`All ${noteIndices.length} steps`}><ol>
    ${noteIndices.map((noteIndex, n) => html`<li aria-current=${n + 1 === shownNumber && !repairSentence ? "step" : undefined}>
      <button class="caption" onClick=${() => chooseEvent((noteIndices[n + 1] ?? events.length) - 1)}>${events[noteIndex].d.text}</button></li>`)}
    ${repairSentence && html`<li aria-current="step">${repairSentence}</li>`}
    ${nextStep && html`<li class="later">${nextStep.text}</li>`}</ol><//></section>`;
}
