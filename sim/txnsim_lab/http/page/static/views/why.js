// @ts-check
// Why is the last stable offset of a partition where it is? The server's explanation, and a button for the repair.

import { changeCluster, sendInput, postJson } from "../api.js";
import { html } from "../html.js";
import { askedFact, canChangeCluster, drivenRun, events, explanation, goToEvent, indexOfPosition, lesson, judgedMoment, chosenPartition, traceOrigin } from "../store.js";
import { READING } from "../agreement.js";
import { transactionLabel, openTransactionAt } from "../tape.js";
import { EventLink } from "./event.js";
import { Disclosure } from "./folded.js";

/** Cause -> why a reader has to wait, in short. The server's own sentences stand below it, as evidence. */
const WAIT_REASONS = {
  "hanging transaction": (name, offset) => [`It must not pass offset ${offset}: only a marker says whether ${name} counts, and none will come.`,
    "No timeout helps: a coordinator's timeout ends only what that coordinator has open."],
  "marker outstanding": (name, offset) => [`It must not pass offset ${offset} yet: only a marker says whether ${name} counts, and that marker is on its way.`],
  "open transaction": (name, offset) => [`It must not pass offset ${offset} yet: ${name} is open, and can still be committed or aborted.`],
};
/** With such a reason, the server's first sentences say the same in detail: so many move below. */
const DETAIL_SENTENCE_COUNT = 2;
/** Cause of txnsim.txn.open_txn_verdict -> what it is called here. */
const CAUSE_TEXTS = { nothing: "no transaction holds readers back", "marker outstanding": "the marker is still owed" };

/** The part of a sentence that tells the age of a transaction: it is no reason, and moves below. */
const AGE_PATTERN = / its newest record is stamped ([^;]+);/;
/** The beginning of a remark about the recording: it is no reason either. */
const REMARK_START = "This trace was recorded at brief";

export function Why({ tp }) {
  const { said, error } = judgedMoment.value;
  const isStale = !said;
  const lastExplanation = said ?? explanation.value; // the last explanation, of another event: drawn grey, without a repair
  const judgement = lastExplanation?.partitions.find((verdict) => verdict.partition === tp);
  const transactionAge = judgement?.sentences.map((sentence) => AGE_PATTERN.exec(sentence)?.[1]).find(Boolean) ?? "";
  const isLearnersTask = lesson.value && lesson.value.part < lesson.value.parts.length; // the learner has to find the repair
  if (askedFact.value) return html`<section id="why" class="why stale" tabindex="-1"><h2>Why?</h2><p class="hint">First the question: what do you think?</p></section>`;
  const transactionText = judgement ? transactionName(tp, judgement, lastExplanation.at) : "";
  const explanationSentences = judgement ? shownSentences(judgement, isLearnersTask, transactionText).filter((sentence) => !sentence.startsWith(REMARK_START)) : [];
  const waitReasons = (judgement && WAIT_REASONS[judgement.cause]?.(transactionText || "the transaction there", judgement.last_stable_offset)) ?? [];
  const sentencesBelowCount = waitReasons.length ? DETAIL_SENTENCE_COUNT : judgement?.cause === "nothing" ? explanationSentences.length : 0;
  const isReaderWaiting = isStale || !judgement || judgement.cause !== "nothing";
  return html`<section id="why" class=${`why${isStale ? " stale" : ""}`} tabindex="-1" aria-live="polite" aria-busy=${isStale}>
    <h2>${isReaderWaiting ? "Why does the reader wait?" : "Does a reader wait?"}</h2>
    ${!judgement && html`<p class="hint">${error || (said ? `The server's answer does not name ${tp}: it has too many partitions.` : READING)}</p>`}
    ${judgement && html`
      <p class=${isStale ? "" : `cause ${judgement.cause.split(" ")[0]}`}><b>${isStale ? READING : (CAUSE_TEXTS[judgement.cause] ?? judgement.cause)}</b></p>
      ${[...waitReasons, ...explanationSentences.slice(sentencesBelowCount)].map((sentence) => html`<p>${sentence}</p>`)}
      ${judgement.repair && !isLearnersTask && !isStale && html`<p><button class="primary" id="repair" disabled=${!canChangeCluster.value} onClick=${() => repairPartition(tp, judgement.marker, said.open)}>
        ${judgement.marker ? `End it: write ${judgement.marker}` : "End it: the decision is unknown, write ABORT"}</button></p>`}
      ${judgement.repair && !isLearnersTask && !isStale && !canChangeCluster.value && html`<p class="hint">This run has ended, so nothing can be changed here.
        ${drivenRun.value?.back ? " Step back, and you can." : ""}</p>`}
      <${Disclosure} id="why-more" label=${isStale ? "This was said of another event" : judgement.repair && !isLearnersTask ? "As a command, and the evidence" : "In detail"}>
      ${explanationSentences.slice(0, sentencesBelowCount).map((sentence) => html`<p>${sentence}</p>`)}
      ${judgement.repair && !isLearnersTask && !isStale && html`<p><code>${judgement.repair}</code></p>`}
      ${judgement.evidence.length > 0 && !isStale && html`<p>It follows from ${judgement.evidence.map((i) => html` <${EventLink} i=${i} />`)}</p>`}
      ${shownSentences(judgement, isLearnersTask, "").filter((sentence) => sentence.startsWith(REMARK_START)).map((sentence) => html`<p class="hint">${sentence}</p>`)}
      <p class="hint">${isStale ? "This was said of" : "Of"} ${tp} at event #${lastExplanation.at}.${transactionAge && ` The newest record of that transaction is stamped ${transactionAge}.`}</p><//>`}
      ${judgement?.cause === "hanging transaction" && !isLearnersTask && !isStale && html`<${OnRealKafka} tp=${tp} judgement=${judgement} />`}
  </section>`;
}

/** What to do on a real cluster: Kafka's metric, tool and settings (KIP-664, KIP-890). */
function OnRealKafka({ tp, judgement }) {
  const dashIndex = tp.lastIndexOf("-");
  const toolCommand = "kafka-transactions.sh --bootstrap-server HOST:PORT";
  return html`<${Disclosure} id="at-work" label="On a real Kafka: notice, end, prevent it">
    <p><b>Notice:</b> the lag of read_committed groups stays, and the metric PartitionsWithLateTransactionsCount leaves 0.</p>
    <p><b>End:</b> <code>${toolCommand} find-hanging --topic ${tp.slice(0, dashIndex)} --partition ${tp.slice(dashIndex + 1)}</code>
      ${judgement.marker === "COMMIT" ? "This tool writes ABORT alone, and this transaction was committed: its records would be lost." : html`<br /><code>${toolCommand} abort --topic ${tp.slice(0, dashIndex)} --partition ${tp.slice(dashIndex + 1)} --start-offset ${judgement.last_stable_offset}</code>`}</p>
    <p><b>Prevent:</b> brokers from 3.6 on verify (transaction.partition.verification.enable, on by default). From 4.0 on raise transaction.version to 2, with clients that speak it.</p><//>`;
}

/** The server's sentences without the repair command, which stands below the button; while the learner has to find
 *  the repair, also without sentences about it. */
const shownSentences = ({ sentences }, isLearnersTask, name) => sentences.filter((sentence) => !isLearnersTask || !sentence.includes("To end it:"))
  .map((sentence) => sentence.replace(/ To end it: .*$/, "").replace(AGE_PATTERN, "").replace(/the transaction of (producer id \d+, epoch -?\d+), begins, which/, name ? `${name} ($1) begins, which` : "$&"));

/** The name of the transaction that begins at the last stable offset, as the stage writes it; "" if unknown. */
function transactionName(tp, { last_stable_offset: lso }, position) {
  const eventIndex = indexOfPosition(position);
  const transaction = eventIndex === undefined ? null : openTransactionAt(tp, eventIndex, lso, lso);
  return transaction ? transactionLabel(transaction) : "";
}

/** Go to the event that moved a bound of a partition (`kind`) last. */
export function goToLastMove(tp, kind, index) {
  for (let eventIndex = index; eventIndex >= 0; eventIndex -= 1) if (events[eventIndex].k === kind && events[eventIndex].d.tp === tp) return goToEvent(eventIndex);
}

/** Write the marker of each hanging transaction: its coordinator's decision, or ABORT where that is unknown. */
function repairPartition(tp, marker, open) {
  const hangingVerdicts = open.filter((verdict) => verdict.partition === tp && verdict.verdict === "hanging");
  const dashIndex = tp.lastIndexOf("-");
  const decisionGuess = marker ? null : "abort";
  chosenPartition.value = tp; // it stays in sight after the repair, when others are in more trouble
  return changeCluster(async () => {
    if (traceOrigin.value.kind === "live") return postJson("/repairs", { topic: tp.slice(0, dashIndex), partition: Number(tp.slice(dashIndex + 1)), guess: decisionGuess });
    for (const verdict of hangingVerdicts) {
      const decision = verdict.decided?.decision === "committed" ? "commit" : "abort";
      await sendInput({ call: { who: "operator", do: "abort", partition: tp, "start-offset": verdict.first, decision } });
    }
  }, `The ${marker ?? "ABORT"} marker is written on ${tp}.`);
}
