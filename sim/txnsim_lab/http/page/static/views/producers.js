// @ts-check
// Producers: what the leaders of partitions know of each, what its coordinator knows, and where they disagree.

import { html } from "../html.js";
import { chooseView, judgedMoment, chosenPartition } from "../store.js";
import { READING } from "../agreement.js";
import { EventLink } from "./event.js";

const SHOWN_PRODUCERS_MAX = 100;

/** Pairs of a producer id and its state on partitions [{tp, producer}]; those with an open transaction first. */
function producersOf(logs) {
  const statesByProducer = new Map();
  for (const [tp, log] of Object.entries(logs)) {
    if (tp.startsWith("__")) continue;
    for (const [pid, producer] of Object.entries(log.producers)) statesByProducer.set(pid, [...(statesByProducer.get(pid) ?? []), { tp, producer }]);
  }
  const hasOpenTransaction = ([, entries]) => entries.some(({ producer }) => producer.first >= 0);
  return [...statesByProducer].sort((a, b) => Number(hasOpenTransaction(b)) - Number(hasOpenTransaction(a)));
}

export function Producers() {
  const { now, said, error, open, position } = judgedMoment.value;
  const entryByProducerId = new Map(Object.entries(now.transactions).map(([id, entry]) => [String(entry.pid), [id, entry]]));
  const sortedProducers = producersOf(now.logs);
  const verdictByProducer = new Map(open.map((verdict) => [`${verdict.partition} ${verdict.producer_id}`, verdict]));
  const stateMismatchOf = (tp, pid) => {
    const openVerdict = verdictByProducer.get(`${tp} ${pid}`);
    return openVerdict && openVerdict.verdict !== "alive" ? { ...openVerdict, text: `${tp}: ${openVerdict.verdict}: ${openVerdict.reason}` } : null;
  };
  return html`<table class="wide producers"><caption>Producers</caption>
    <thead><tr><th colspan="4" scope="colgroup">the partition says</th><th colspan="4" scope="colgroup">the coordinator says</th></tr>
      <tr><th>partition</th><th>epoch</th><th>last sequence</th><th>open since</th><th>transactional id</th><th>state at the coordinator</th><th>epoch</th><th>lists it</th></tr></thead>
    ${sortedProducers.length === 0 && html`<tbody><tr><td colspan="8">none</td></tr></tbody>`}
    ${sortedProducers.slice(0, SHOWN_PRODUCERS_MAX).map(([pid, entries]) => {
      const [id, entry] = entryByProducerId.get(pid) ?? ["-", null];
      const producerMismatches = entries.map(({ tp }) => stateMismatchOf(tp, pid)).filter(Boolean).sort((a, b) => (b.verdict === "hanging") - (a.verdict === "hanging"));
      const agreementSentence = producerMismatches.length ? html`<b>${producerMismatches[0].verdict === "decided" ? "They will agree." : "They disagree."}</b> ${producerMismatches.map((conflict) => conflict.text).join("; ")}`
        : entry?.state.startsWith("Prepare") ? html`<b>They will agree.</b> ${id} is ${entry.state}, and not complete.` : "They agree.";
      return html`<tbody><tr class=${`title ${producerMismatches[0]?.verdict ?? ""}`}><th colspan="8" scope="rowgroup"><b>producer ${pid}</b> ${said ? agreementSentence : error || READING}</th></tr>
        ${entries.map(({ tp, producer }, n) => html`<tr><td><button class="link" onClick=${() => { chosenPartition.value = tp; chooseView("stage"); }}>${tp}</button></td>
          <td>${producer.epoch}</td><td>${producer.seq}</td>
          <td>${producer.first >= 0 ? html`${producer.first} ${producer.i >= 0 && html`<${EventLink} i=${producer.i} />`}` : "-"}</td>
          <td class="coordinator">${n ? "" : id}</td><td>${n ? "" : (entry?.state ?? "-")}</td><td>${n ? "" : (entry?.epoch ?? "-")}</td>
          <td>${entry ? (entry.partitions.includes(tp) ? "yes" : "no") : "-"}</td></tr>`)}</tbody>`;
    })}</table>
    ${sortedProducers.length > SHOWN_PRODUCERS_MAX && html`<p class="hint">${sortedProducers.length - SHOWN_PRODUCERS_MAX} more producers are not shown.</p>`}
    <p class="hint">A hanging transaction is a disagreement between the two halves.${said && ` This is said of event #${position}.`}</p>`;
}
