// @ts-check
// The verdict on the whole cluster, over every view: what the judge says of the shown event (`txnsim.verdict`), the one
// thing that ends it, and how old that is. The page adds no word about a transaction.

import { useEffect, useRef } from "preact/hooks";
import { repairPartition } from "../api.js";
import { html } from "../html.js";
import { askedFact, canChangeCluster, cursorIndex, eventCount, events, isHangAwaited, isLearnersTask, judgedMoment, connectionState, presentAnswer, traceOrigin, unansweredMs, chosenPartition } from "../store.js";

export const READING_TEXT = "Reading this moment …";
const CONNECTION_TEXTS = {
  connecting: "connecting …", off: "nothing is recorded", lost: "○ the server does not answer, trying again",
  none: "no run is open", done: "■ recorded run", paused: "❚❚ the run waits", refused: "a token is wanted: open the address that txnsim serve printed",
};
/** An answer that takes longer is said to be missing. */
const LATE_ANSWER_MS = 2000;
/** An answer that took less is of now. */
const LIVE_MS = 100;
/** State of a verdict -> its sign, so that colour alone tells nothing. */
export const STATE_SIGNS = { healthy: "✓", open: "◐", waits: "◔", unknown: "?", "wrong-data": "✖", "no-leader": "✖", hangs: "✖" };

/** How many events the server has behind the one that is judged; null where none is judged. */
function lagOf(position) {
  if (position === undefined) return null;
  const newestPosition = Math.max(events[eventCount.value - 1]?.i ?? -1, (traceOrigin.value.kind === "live" && presentAnswer.value?.position) || -1);
  return Math.max(0, newestPosition - position);
}

/** What is told of the age of the verdict: {text, isLive}. */
function ageOf(lag) {
  const present = presentAnswer.value;
  const behindText = lag ? `${lag.toLocaleString("en")} ${lag === 1 ? "event" : "events"} behind` : "";
  if (traceOrigin.value.kind !== "live" || connectionState.value !== "live") {
    const stoppedText = connectionState.value === "off" && present && present.position !== null ? `recording stopped at #${present.position}` : CONNECTION_TEXTS[connectionState.value];
    return { text: [stoppedText, traceOrigin.value.kind === "live" && behindText].filter(Boolean).join(" · "), isLive: false };
  }
  if (unansweredMs.value > LATE_ANSWER_MS) return { text: [`○ no answer for ${Math.round(unansweredMs.value / 1000)} s`, behindText].filter(Boolean).join(", "), isLive: false };
  if (cursorIndex.value !== null && !isHangAwaited.value) return { text: lag ? `an earlier moment: ${lag.toLocaleString("en")} ${lag === 1 ? "event has" : "events have"} followed` : "paused at this event", isLive: false };
  if (lag) return { text: behindText, isLive: false };
  if (lag === null || !present) return { text: CONNECTION_TEXTS.connecting, isLive: false };
  if (!present.is_recording) return { text: `recording stopped at #${present.position}`, isLive: false };
  return { text: present.tookMs < LIVE_MS ? "● live" : `● live, ${(present.tookMs / 1000).toFixed(1)} s behind`, isLive: true };
}

/** The age of what is shown. It is a component of its own: it changes with every answer. */
function Age({ position }) {
  const { text, isLive } = ageOf(lagOf(position));
  return html`<span class=${`link-state ${isLive ? "live" : connectionState.value === "live" ? "behind" : connectionState.value}`}>${text}</span>`;
}

/** The verdict on the cluster in a bar, with what ends it. */
export function VerdictBar() {
  const { serverExplanation, position, error } = judgedMoment.value;
  void eventCount.value;
  const presentVerdict = traceOrigin.value.kind === "live" && eventCount.value === 0 ? presentAnswer.value : null;
  const verdict = serverExplanation?.verdict ?? presentVerdict;
  if (traceOrigin.value.kind === "site") return null;
  if (askedFact.value) return html`<section id="verdict" class="verdict asked"><h2>First the question: what do you think?</h2><p>The verdict comes with your answer.</p></section>`;
  const judgedPosition = serverExplanation ? position : presentVerdict?.position ?? undefined;
  if (!verdict) return html`<section id="verdict" class="verdict reading" role="status" aria-busy="true"><h2>${error || READING_TEXT}</h2><p class="standing"><${Age} position=${judgedPosition} /></p></section>`;
  const gravestPartition = verdict.partitions.find((partition) => partition.headline === verdict.headline);
  return html`<section id="verdict" class=${`verdict ${verdict.state}`} role="status" data-verdict=${verdict.state} data-event=${judgedPosition} data-lag=${lagOf(judgedPosition) ?? undefined}>
    <h2 key=${verdict.headline}><span aria-hidden="true">${STATE_SIGNS[verdict.state]}</span> ${verdict.headline}</h2>
    <p class="standing">${gravestPartition && html`${gravestPartition.summary && html`<span class="summary">${gravestPartition.summary}</span>`}${gravestPartition.ends && !(isLearnersTask.value && gravestPartition.ends.command) && html`<span>${gravestPartition.ends.sentence}</span>`}`}<${Age} position=${judgedPosition} /></p>
    ${gravestPartition && serverExplanation && !isLearnersTask.value && html`<${EndButton} partition=${gravestPartition} />`}</section>`;
}

/** The button that does what the judge names as the end of a hanging transaction. */
function EndButton({ partition }) {
  const hasEnded = useRef(false);
  useEffect(() => () => hasEnded.current && document.querySelector("main > .view")?.focus(), []); // the button goes, the focus must not be lost
  if (!partition.ends?.command) return null;
  const isLookingBack = cursorIndex.value !== null && cursorIndex.value < eventCount.value - 1;
  const refusal = !canChangeCluster.value ? "This run has ended, so nothing can be changed here" : isLookingBack ? "An earlier moment is shown, and this would act now: go back to now first" : "";
  return html`<button class="primary" id="repair" disabled=${refusal !== ""} title=${refusal || partition.ends.command} onClick=${() => {
    chosenPartition.value = partition.partition; // it stays in sight after the repair, when others are in more trouble
    hasEnded.current = true;
    void repairPartition(partition);
  }}>${partition.ends.action}${refusal && html`<small>${canChangeCluster.value ? "first go back to now" : "this run has ended"}</small>`}</button>`;
}

/** The verdict on another run, as a line. */
export const VerdictLine = ({ moment, attributes = {} }) => html`<p class=${`verdict line ${moment.serverExplanation?.verdict.state ?? "reading"}`} ...${attributes}>
  ${moment.serverExplanation ? html`<b><span aria-hidden="true">${STATE_SIGNS[moment.serverExplanation.verdict.state]}</span> ${moment.serverExplanation.verdict.headline}</b>` : moment.error || READING_TEXT}</p>`;
