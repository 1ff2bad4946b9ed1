// @ts-check
// Two runs of one story side by side, and what each shows at a step. The server aligns their steps, and says where they
// differ first (txnsim_lab.trace.run_difference).

import { PICTURE_LOGS_MAX, pictureOf } from "./picture.js";
import { SHOWN_MAX, coordinatorBeliefOf, idsOf, messagesAt, partitionsOf, stepAt } from "./stage.js";
import { getCurrentTrace, events, storyNotes, stateAt, withTrace } from "./store.js";
import { tapeOf } from "./tape.js";

/** Indices of the first and the last event of a step; `stepNumber` counts from 1. */
function stepSpan(trace, stepNumber) {
  return withTrace(trace, () => ({ from: storyNotes()[stepNumber - 1], to: (storyNotes()[stepNumber] ?? events.length) - 1 }));
}

/** The index in the other trace that belongs to an index of the shown one: as far into the same step. */
export function indexInOtherRun({ trace: otherTrace, rows }, index) {
  const stepNumber = stepAt(index)?.number ?? 0;
  const rowIndex = rows.findIndex(({ left }) => left === stepNumber);
  const lastRowOfOther = rows.slice(0, rowIndex + 1).findLast(({ right }) => right !== null);
  if (!lastRowOfOther) return withTrace(otherTrace, () => (storyNotes()[0] ?? events.length) - 1);
  const otherStepSpan = stepSpan(otherTrace, lastRowOfOther.right);
  if (rows[rowIndex].right === null) return otherStepSpan.to;
  const ownStepSpan = stepSpan(getCurrentTrace(), stepNumber);
  return otherStepSpan.from + Math.floor(((index - ownStepSpan.from) / Math.max(1, ownStepSpan.to - ownStepSpan.from)) * (otherStepSpan.to - otherStepSpan.from));
}

/** What one side shows at an index, as plain values. `open`, `serverExplanation`: open transactions as the server judges them, and its whole explanation;
 *  `likeSide`: the side whose transactional id is drawn here, too. */
export const comparedSide = (trace, index, { open, serverExplanation = null }, likeSide = null) => withTrace(trace, () => {
  const clusterState = stateAt(index);
  const transactionalIds = idsOf(clusterState, serverExplanation?.verdict).slice(0, SHOWN_MAX);
  const partitionNames = partitionsOf(clusterState, serverExplanation?.verdict).slice(0, SHOWN_MAX);
  const shownId = transactionalIds.includes(likeSide?.id) ? likeSide.id : transactionalIds[0];
  return {
    index, clusterState, open, id: shownId,
    drawn: pictureOf({ clusterState, index, serverExplanation }, shownId, partitionNames.slice(0, PICTURE_LOGS_MAX)),
    ids: transactionalIds.map((id) => coordinatorBeliefOf(clusterState, id, index)),
    logs: partitionNames.map((tp) => ({ tp, log: clusterState.logs[tp], logTape: tapeOf(tp, index, clusterState.logs[tp]) })),
    messages: messagesAt(clusterState, index, serverExplanation?.words.markers),
  };
});
