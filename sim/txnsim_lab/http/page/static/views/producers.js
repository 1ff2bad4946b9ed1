// @ts-check
// Producers: what the leaders of partitions know of each, what its coordinator knows, and where they disagree.

import { html } from "../html.js";
import { chooseView, moment, partition } from "../store.js";
import { READING } from "../agreement.js";
import { Event } from "./event.js";

const SHOWN = 100;

/** Pairs of a producer id and its state on partitions [{tp, producer}]; those with an open transaction first. */
function producersOf(logs) {
  const producers = new Map();
  for (const [tp, log] of Object.entries(logs)) {
    if (tp.startsWith("__")) continue;
    for (const [pid, producer] of Object.entries(log.producers)) producers.set(pid, [...(producers.get(pid) ?? []), { tp, producer }]);
  }
  const isOpen = ([, entries]) => entries.some(({ producer }) => producer.first >= 0);
  return [...producers].sort((a, b) => Number(isOpen(b)) - Number(isOpen(a)));
}

export function Producers() {
  const { now, said, error, open, position } = moment.value;
  const ids = new Map(Object.entries(now.transactions).map(([id, entry]) => [String(entry.pid), [id, entry]]));
  const producers = producersOf(now.logs);
  const verdicts = new Map(open.map((verdict) => [`${verdict.partition} ${verdict.producer_id}`, verdict]));
  const mismatch = (tp, pid) => {
    const verdict = verdicts.get(`${tp} ${pid}`);
    return verdict && verdict.verdict !== "alive" ? { ...verdict, text: `${tp}: ${verdict.verdict}: ${verdict.reason}` } : null;
  };
  return html`<table class="wide producers"><caption>Producers</caption>
    <thead><tr><th colspan="4" scope="colgroup">the partition says</th><th colspan="4" scope="colgroup">the coordinator says</th></tr>
      <tr><th>partition</th><th>epoch</th><th>last sequence</th><th>open since</th><th>transactional id</th><th>state at the coordinator</th><th>epoch</th><th>lists it</th></tr></thead>
    ${producers.length === 0 && html`<tbody><tr><td colspan="8">none</td></tr></tbody>`}
    ${producers.slice(0, SHOWN).map(([pid, entries]) => {
      const [id, entry] = ids.get(pid) ?? ["-", null];
      const mismatches = entries.map(({ tp }) => mismatch(tp, pid)).filter(Boolean).sort((a, b) => (b.verdict === "hanging") - (a.verdict === "hanging"));
      const sentence = mismatches.length ? html`<b>${mismatches[0].verdict === "decided" ? "They will agree." : "They disagree."}</b> ${mismatches.map((conflict) => conflict.text).join("; ")}`
        : entry?.state.startsWith("Prepare") ? html`<b>They will agree.</b> ${id} is ${entry.state}, and not complete.` : "They agree.";
      return html`<tbody><tr class=${`title ${mismatches[0]?.verdict ?? ""}`}><th colspan="8" scope="rowgroup"><b>producer ${pid}</b> ${said ? sentence : error || READING}</th></tr>
        ${entries.map(({ tp, producer }, n) => html`<tr><td><button class="link" onClick=${() => { partition.value = tp; chooseView("stage"); }}>${tp}</button></td>
          <td>${producer.epoch}</td><td>${producer.seq}</td>
          <td>${producer.first >= 0 ? html`${producer.first} ${producer.i >= 0 && html`<${Event} i=${producer.i} />`}` : "-"}</td>
          <td class="coordinator">${n ? "" : id}</td><td>${n ? "" : (entry?.state ?? "-")}</td><td>${n ? "" : (entry?.epoch ?? "-")}</td>
          <td>${entry ? (entry.partitions.includes(tp) ? "yes" : "no") : "-"}</td></tr>`)}</tbody>`;
    })}</table>
    ${producers.length > SHOWN && html`<p class="hint">${producers.length - SHOWN} more producers are not shown.</p>`}
    <p class="hint">A hanging transaction is a disagreement between the two halves.${said && ` This is said of event #${position}.`}</p>`;
}
