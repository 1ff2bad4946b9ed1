// @ts-check
// Two runs of one story side by side: their steps aligned by caption, what each shows at a step, and the first
// step at which they differ, in one sentence.

import { PICTURE_LOGS_MAX, pictureOf } from "./picture.js";
import { SHOWN_MAX, TXN_APIS, coordinated, idsOf, isOwnerless, messages, partitionsOf, stepAt } from "./stage.js";
import { getCurrentTrace, events, storyNotes, stateAt, withTrace } from "./store.js";
import { transactionLabel, tapeOf } from "./tape.js";

/** Errors after which clients retry: they are no difference between two runs. */
const RETRIABLE_ERRORS = new Set(["NONE", "CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION"]);

const captionsOf = (trace) => withTrace(trace, () => storyNotes().map((noteIndex) => events[noteIndex].d.text.trim()));

/** Indices of the first and the last event of a step; `stepNumber` counts from 1. */
function stepSpan(trace, stepNumber) {
  return withTrace(trace, () => ({ from: storyNotes()[stepNumber - 1], to: (storyNotes()[stepNumber] ?? events.length) - 1 }));
}

/** The steps of two runs as rows {text, left, right}: steps with the same caption share a row (longest common
 *  subsequence). */
export function alignCaptions(ownTrace, otherTrace) {
  const [ownCaptions, otherCaptions] = [captionsOf(ownTrace), captionsOf(otherTrace)];
  const commonLengths = Array.from({ length: ownCaptions.length + 1 }, () => new Array(otherCaptions.length + 1).fill(0));
  for (let ownIndex = ownCaptions.length - 1; ownIndex >= 0; ownIndex -= 1) {
    for (let otherIndex = otherCaptions.length - 1; otherIndex >= 0; otherIndex -= 1) commonLengths[ownIndex][otherIndex] = ownCaptions[ownIndex] === otherCaptions[otherIndex] ? commonLengths[ownIndex + 1][otherIndex + 1] + 1 : Math.max(commonLengths[ownIndex + 1][otherIndex], commonLengths[ownIndex][otherIndex + 1]);
  }
  const alignedRows = [];
  for (let ownIndex = 0, otherIndex = 0; ownIndex < ownCaptions.length || otherIndex < otherCaptions.length; ) {
    if (ownIndex < ownCaptions.length && otherIndex < otherCaptions.length && ownCaptions[ownIndex] === otherCaptions[otherIndex]) alignedRows.push({ text: ownCaptions[ownIndex], left: ++ownIndex, right: ++otherIndex });
    else if (otherIndex === otherCaptions.length || (ownIndex < ownCaptions.length && commonLengths[ownIndex + 1][otherIndex] >= commonLengths[ownIndex][otherIndex + 1])) alignedRows.push({ text: ownCaptions[ownIndex], left: ++ownIndex, right: null });
    else alignedRows.push({ text: otherCaptions[otherIndex], left: null, right: ++otherIndex });
  }
  return alignedRows;
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

/** What one side shows at an index, as plain values. `open`, `applications`: open transactions as the server judges them, and what applications know;
 *  `likeSide`: the side whose transactional id is drawn here, too. */
export const comparedSide = (trace, index, { open, said = null, applications = {} }, likeSide = null) => withTrace(trace, () => {
  const clusterState = stateAt(index);
  const transactionalIds = idsOf(clusterState, open).slice(0, SHOWN_MAX);
  const partitionNames = partitionsOf(clusterState, open).slice(0, SHOWN_MAX);
  const shownId = transactionalIds.includes(likeSide?.id) ? likeSide.id : (open.find((verdict) => transactionalIds.includes(verdict.transactional_id))?.transactional_id ?? transactionalIds[0]);
  return {
    index, now: clusterState, open, id: shownId,
    drawn: pictureOf({ now: clusterState, index, open, said, applications }, shownId, partitionNames.slice(0, PICTURE_LOGS_MAX)),
    ids: transactionalIds.map((id) => coordinated(clusterState, id, index)),
    logs: partitionNames.map((tp) => ({ tp, log: clusterState.logs[tp], logTape: tapeOf(tp, index, clusterState.logs[tp]) })),
    messages: messages(clusterState, index),
  };
});

/** What could tell two runs apart at a step: what disagrees at its end, what was refused in it, the records. */
function differenceSigns(trace, stepNumber) {
  const { from, to } = stepSpan(trace, stepNumber);
  return withTrace(trace, () => {
    const clusterState = stateAt(to);
    /** Sentences about what disagrees at the end of the step. */
    const disagreements = [];
    const recordTexts = [];
    for (const [tp, log] of Object.entries(clusterState.logs).sort()) {
      if (tp.startsWith("__")) continue;
      for (const { how, t, first, values, isMarker, pid } of tapeOf(tp, to, log).cells) {
        if (isMarker) continue;
        recordTexts.push(`${tp} ${values ?? ""} ${how}`);
        if (how === "open" && isOwnerless(clusterState, tp, t?.id)) disagreements.push(`${tp} has ${t ? transactionLabel(t) : `a transaction of producer ${pid}`} open from offset ${first} on, and no marker will come.`);
      }
    }
    const refusalSentences = new Map();
    for (let eventIndex = from; eventIndex <= to; eventIndex += 1) {
      const { k, d } = events[eventIndex];
      const refusedApi = k === "log.reject" ? "Produce" : k === "marker.refused" ? "WriteTxnMarkers" : k === "msg.send" && d.response && TXN_APIS.has(d.api) ? d.api : null;
      if (refusedApi && d.error && !RETRIABLE_ERRORS.has(d.error)) refusalSentences.set(`${refusedApi} ${d.error}`, `${refusedApi} is refused with ${d.error}${d.reason ? `: ${d.reason}` : ""}.`);
    }
    return { trouble: disagreements, refused: refusalSentences, names: [...refusalSentences.keys()].sort(), states: Object.entries(clusterState.transactions).map(([id, { state }]) => `${id} is ${state}`).sort(), records: recordTexts };
  });
}

/** The sentence that tells most about one side of a difference. */
const differenceSentence = (ownSigns, otherSigns) => {
  const [ownTrouble] = ownSigns.trouble.filter((troubleText) => !otherSigns.trouble.includes(troubleText));
  const refusalSentence = ownSigns.refused.get(ownSigns.names.find((name) => !otherSigns.refused.has(name)));
  return ownTrouble ?? refusalSentence ?? ownSigns.trouble[0] ?? "nothing disagrees, and nothing is refused.";
};

/** The first step at which two runs differ: its row and a sentence; null where the stage shows no difference. What
 *  disagrees counts most, then what is refused, then states, then records. */
export function firstDifference({ trace: otherTrace, rows, names }) {
  const stepPairs = rows.flatMap((row, n) => (row.left && row.right ? [{ row, n, a: differenceSigns(getCurrentTrace(), row.left), b: differenceSigns(otherTrace, row.right) }] : []));
  for (const signKind of ["trouble", "names", "states", "records"]) {
    const differingPair = stepPairs.find(({ a, b }) => (signKind === "trouble" ? (a.trouble.length > 0) !== (b.trouble.length > 0) : String(a[signKind]) !== String(b[signKind])));
    if (!differingPair) continue;
    const { row, a, b } = differingPair;
    const sideSentences = signKind === "states" || signKind === "records" ? [a, b].map((sideSigns) => `${sideSigns[signKind].join(", ") || "nothing is written"}.`) : [differenceSentence(a, b), differenceSentence(b, a)];
    return { row, text: `They differ first in “${row.text}” With ${names[0]}, ${sideSentences[0]} With ${names[1]}, ${sideSentences[1]}` };
  }
  return null;
}
