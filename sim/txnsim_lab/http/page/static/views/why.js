// @ts-check
// Why is the last stable offset of a partition where it is? The judge's words, and the evidence in the trace.

import { html } from "../html.js";
import { events, explanation, goToEvent, isLearnersTask, judgedMoment } from "../store.js";
import { EventLink } from "./event.js";
import { Disclosure } from "./folded.js";
import { stateWithMeaning } from "../words.js";
import { Term } from "./term.js";
import { READING_TEXT } from "./verdict.js";

/** Why readers of a partition stand where they do, in the judge's words. */
export function Why({ tp }) {
  const { serverExplanation, error } = judgedMoment.value;
  const isStale = !serverExplanation;
  const lastExplanation = serverExplanation ?? explanation.value; // the last explanation, of another event: drawn grey
  const judgement = lastExplanation?.partitions.find((explained) => explained.partition === tp);
  return html`<section id="why" class=${`why${isStale ? " stale" : ""}`} tabindex="-1" aria-live="polite" aria-busy=${isStale}>
    <h2>Readers of ${tp}</h2>
    ${!judgement && html`<p class="hint">${error || (serverExplanation ? `The server's answer does not name ${tp}: it has too many partitions.` : READING_TEXT)}</p>`}
    ${judgement && html`
      <p class=${isStale ? "" : `cause ${judgement.verdict.state}${judgement.cause === "nothing" ? " plain" : ""}`}><b>${isStale ? READING_TEXT : judgement.cause === "nothing" ? judgement.verdict.headline : judgement.cause}</b></p>
      <dl class="facts">${factsOf(judgement.verdict).map(([label, value, word]) => html`<dt>${word ? html`<${Term} word=${word}>${label}<//>` : label}</dt><dd>${value}</dd>`)}</dl>
      <${Disclosure} id="why-more" label=${isStale ? "As of another event" : judgement.repair && !isLearnersTask.value ? "Explanation, command and evidence" : "Explanation and evidence"}>
      ${judgement.reasons.map((sentence) => html`<p>${sentence}</p>`)}
      ${judgement.verdict.advice && !(isLearnersTask.value && judgement.repair) && html`<p>${judgement.verdict.advice}</p>`}
      ${judgement.repair && !isLearnersTask.value && !isStale && html`<p><code>${judgement.repair}</code></p>`}
      ${judgement.evidence.length > 0 && !isStale && html`<p>It follows from ${judgement.evidence.map((i) => html` <${EventLink} i=${i} />`)}</p>`}
      ${judgement.remarks.map((sentence) => html`<p class="hint">${sentence}</p>`)}
      <p class="hint">As of event #${lastExplanation.at}.</p><//>`}
      ${judgement?.on_real_kafka && !isLearnersTask.value && !isStale && html`<${RealKafkaAdvice} advice=${judgement.on_real_kafka} />`}
  </section>`;
}

/** The verdict on a partition as facts: [label, value, the word of the help that explains the label]. */
function factsOf({ standing, stands_at: standsAt, high_watermark: highWatermarkOffset, records_behind: withheldCount, holder, readers, share_groups: shareGroups, ends }) {
  const waitingNames = [...(readers ?? []), ...(shareGroups ?? []).map(({ group_id: groupId }) => `share group ${groupId}`)];
  return [
    ["Readers", standing, "readers"],
    ...(standsAt === null ? [] : [["Last stable offset", standsAt, "last stable offset"], ["High watermark", highWatermarkOffset, "high watermark"]]),
    ...(withheldCount ? [["Withheld", `${withheldCount} ${withheldCount === 1 ? "offset" : "offsets"}`, "withheld"]] : []),
    ...(holder ? [
      ["Open here", holder.transactional_id ?? "not known", "transactional id"], ["Producer", `${holder.producer_id}, epoch ${holder.producer_epoch}`, "producer"],
      ...(holder.coordinator_state ? [["Coordinator has", stateWithMeaning(holder.coordinator_state), "state"]] : []),
      ["Waiting now", waitingNames.join(", ") || (readers === null ? "not known" : "no consumer")],
    ] : []),
    ...(ends && !(isLearnersTask.value && ends.command) ? [["To be ended by", ends.by]] : []),
  ];
}

/** What to do on a real cluster, in the server's words. */
const RealKafkaAdvice = ({ advice }) => html`<${Disclosure} id="at-work" label="On a real Kafka: notice, end, prevent it">
    <p><b>Notice:</b> ${advice.notice}</p>
    <p><b>End:</b> <code>${advice.find_command}</code> ${advice.end}${advice.end_command && html`<br /><code>${advice.end_command}</code>`}</p>
    <p><b>Prevent:</b> ${advice.prevent}</p><//>`;

/** Go to the event that moved a bound of a partition (`kind`) last. */
export function goToLastMove(tp, kind, index) {
  for (let eventIndex = index; eventIndex >= 0; eventIndex -= 1) if (events[eventIndex].k === kind && events[eventIndex].d.tp === tp) return goToEvent(eventIndex);
}
