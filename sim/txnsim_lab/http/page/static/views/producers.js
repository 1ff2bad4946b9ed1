// @ts-check
// Producers: what the leaders of partitions know of each, what its coordinator knows, and what the judge says of it.
// Below them who reads: consumers that wait, groups, and where they stand, in the judge's words.

import { html } from "../html.js";
import { askedFact, chooseView, judgedMoment, chosenPartition } from "../store.js";
import { stateWithMeaning } from "../words.js";
import { READING_TEXT } from "./verdict.js";
import { EventLink } from "./event.js";
import { NothingYet } from "./practise.js";

const SHOWN_ROWS_MAX = 100;

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
    ${sortedProducers.slice(0, SHOWN_ROWS_MAX).map(([pid, entries]) => {
      const [id, entry] = entryByProducerId.get(pid) ?? ["-", null];
      const txnsOfProducer = judgedTransactions.filter(({ producer_id: producerId }) => String(producerId) === pid);
      const unfinished = askedFact.value ? null : serverExplanation?.verdict.unfinished.find(({ transactional_id: transactionalId }) => transactionalId === id);
      const sentences = [...txnsOfProducer.map(({ headline, reason }) => `${headline}: ${reason}.`), ...(unfinished ? [`${unfinished.headline}.`] : [])];
      return html`<tbody><tr class=${`title ${txnsOfProducer[0]?.state ?? ""}`}><th colspan="8" scope="rowgroup"><b>producer ${pid}</b>${serverExplanation ? (sentences.length ? `: ${sentences.join(" ")}` : "") : `: ${error || READING_TEXT}`}</th></tr>
        ${entries.map(({ tp, producer }, n) => html`<tr><td data-label="partition"><button class="link" onClick=${() => { chosenPartition.value = tp; chooseView("stage"); }}>${tp}</button></td>
          <td data-label="epoch at the partition">${producer.epoch}</td><td data-label="last sequence">${producer.seq}</td>
          <td data-label="open since">${producer.first >= 0 ? html`${producer.first} ${producer.i >= 0 && html`<${EventLink} i=${producer.i} />`}` : "-"}</td>
          <td class="coordinator" data-label="transactional id">${n ? "" : id}</td><td data-label="state at the coordinator">${n ? "" : (entry ? stateWithMeaning(entry.state) : "-")}</td><td data-label="epoch at the coordinator">${n ? "" : (entry?.epoch ?? "-")}</td>
          <td data-label="lists the partition">${entry ? (entry.partitions.includes(tp) ? "yes" : "no") : "-"}</td></tr>`)}</tbody>`;
    })}</table>
    ${sortedProducers.length > SHOWN_ROWS_MAX && html`<p class="hint">${sortedProducers.length - SHOWN_ROWS_MAX} more producers are not shown.</p>`}
    ${serverExplanation && !askedFact.value && html`<${Readers} clusterState=${clusterState} explanation=${serverExplanation} />`}
    <p class="hint">A hanging transaction is a disagreement between the two halves of the first table.${serverExplanation && ` As of event #${position}.`}</p>`;
}

/** Who reads: [who, partition, where it stands] of consumers that wait now, share groups, streams groups, and groups with a position in an open transaction. */
const readersOf = (clusterState, { verdict, words }) => [
  ...verdict.partitions.flatMap(({ partition, readers, standing, headline }) => (readers ?? []).map((name) => [`consumer ${name}`, partition, `${standing}: ${headline}`])),
  ...Object.entries(words.share_groups).flatMap(([partition, sentences]) => sentences.map((sentence) => ["share group", partition, sentence])),
  ...Object.entries(words.streams_groups).map(([name, sentences]) => [`streams group ${name}`, "", sentences.join(" ")]),
  ...Object.entries(clusterState.offsets).map(([key, offset]) => {
    const gapIndex = key.lastIndexOf(" "); // a group's name may have spaces
    return [`group ${key.slice(0, gapIndex)}`, key.slice(gapIndex + 1), `position ${offset}, pending`];
  }),
];

function Readers({ clusterState, explanation }) {
  const rows = readersOf(clusterState, explanation);
  return html`<table class="wide" id="readers"><caption>Consumers and groups</caption><thead><tr><th>reader</th><th>partition</th><th>where it stands</th></tr></thead><tbody>
    ${rows.length ? rows.slice(0, SHOWN_ROWS_MAX).map(([who, partition, standing]) => html`<tr><th scope="row">${who}</th><td>${partition || "-"}</td><td>${standing}</td></tr>`) : html`<tr><td colspan="3">No consumer waits at this event, and no group has a position in an open transaction.</td></tr>`}</tbody></table>
    ${rows.length > SHOWN_ROWS_MAX && html`<p class="hint">${rows.length - SHOWN_ROWS_MAX} more are not shown.</p>`}`;
}
