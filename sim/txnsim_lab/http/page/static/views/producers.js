// @ts-check
// Producers: what the leaders of partitions know of each, what its coordinator knows, and what the judge says of it.

import { html } from "../html.js";
import { askedFact, chooseView, judgedMoment, chosenPartition } from "../store.js";
import { stateWithMeaning } from "../words.js";
import { READING_TEXT } from "./verdict.js";
import { EventLink } from "./event.js";
import { NothingYet } from "./practise.js";

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
  const { clusterState, serverExplanation, error, position } = judgedMoment.value;
  const entryByProducerId = new Map(Object.entries(clusterState.transactions).map(([id, entry]) => [String(entry.pid), [id, entry]]));
  const sortedProducers = producersOf(clusterState.logs);
  if (!sortedProducers.length) return html`<${NothingYet} title="No producer has written yet">What the leader of a partition knows of a producer will stand here, beside what the coordinator knows.<//>`;
  const judgedTransactions = serverExplanation && !askedFact.value ? serverExplanation.verdict.partitions.flatMap((judged) => judged.open_txns) : [];
  return html`<table class="wide producers"><caption>Producers</caption>
    <thead><tr><th colspan="4" scope="colgroup">the partition says</th><th colspan="4" scope="colgroup">the coordinator says</th></tr>
      <tr><th>partition</th><th>epoch</th><th>last sequence</th><th>open since</th><th class="coordinator">transactional id</th><th>state at the coordinator</th><th>epoch</th><th>lists it</th></tr></thead>
    ${sortedProducers.slice(0, SHOWN_PRODUCERS_MAX).map(([pid, entries]) => {
      const [id, entry] = entryByProducerId.get(pid) ?? ["-", null];
      const txnsOfProducer = judgedTransactions.filter(({ producer_id: producerId }) => String(producerId) === pid);
      const unfinished = askedFact.value ? null : serverExplanation?.verdict.unfinished.find(({ transactional_id: transactionalId }) => transactionalId === id);
      const sentences = [...txnsOfProducer.map(({ headline, reason }) => `${headline}: ${reason}.`), ...(unfinished ? [`${unfinished.headline}.`] : [])];
      return html`<tbody><tr class=${`title ${txnsOfProducer[0]?.state ?? ""}`}><th colspan="8" scope="rowgroup"><b>producer ${pid}</b>${serverExplanation ? (sentences.length ? `: ${sentences.join(" ")}` : "") : `: ${error || READING_TEXT}`}</th></tr>
        ${entries.map(({ tp, producer }, n) => html`<tr><td><button class="link" onClick=${() => { chosenPartition.value = tp; chooseView("stage"); }}>${tp}</button></td>
          <td>${producer.epoch}</td><td>${producer.seq}</td>
          <td>${producer.first >= 0 ? html`${producer.first} ${producer.i >= 0 && html`<${EventLink} i=${producer.i} />`}` : "-"}</td>
          <td class="coordinator">${n ? "" : id}</td><td>${n ? "" : (entry ? stateWithMeaning(entry.state) : "-")}</td><td>${n ? "" : (entry?.epoch ?? "-")}</td>
          <td>${entry ? (entry.partitions.includes(tp) ? "yes" : "no") : "-"}</td></tr>`)}</tbody>`;
    })}</table>
    ${sortedProducers.length > SHOWN_PRODUCERS_MAX && html`<p class="hint">${sortedProducers.length - SHOWN_PRODUCERS_MAX} more producers are not shown.</p>`}
    <p class="hint">A hanging transaction is a disagreement between the two halves.${serverExplanation && ` This is said of event #${position}.`}</p>`;
}
