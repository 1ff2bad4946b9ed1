// @ts-check
// Producers as the partition and as the coordinator see them, and where the two disagree.

import { html } from "../html.js";
import { choose, explained, partition, state } from "../store.js";
import { Event } from "./event.js";

const ROWS = 100;

export function Producers() {
  const { now } = state.value;
  const ids = new Map(Object.entries(now.transactions).map(([id, one]) => [String(one.pid), [id, one]]));
  const rows = Object.entries(now.logs).flatMap(([tp, log]) =>
    tp.startsWith("__") ? [] : Object.entries(log.producers).map(([pid, one]) => ({ tp, pid, one })));
  rows.sort((a, b) => Number(b.one.first >= 0) - Number(a.one.first >= 0)); // open transactions first
  const left = rows.splice(ROWS);
  const verdicts = new Map((explained.value?.open ?? []).map((one) => [`${one.partition} ${one.producer_id}`, one]));
  return html`<table class="wide"><caption>Producers by partition</caption><thead><tr>
      <th>partition</th><th>producer id</th><th>epoch</th><th>last sequence</th><th>open since</th>
      <th>transactional id</th><th>state at the coordinator</th><th>epoch</th><th>lists it</th><th>mismatch</th></tr></thead>
    <tbody>
    ${rows.length === 0 && html`<tr><td colspan="10">none</td></tr>`}
    ${rows.map(({ tp, pid, one }) => {
      const [id, entry] = ids.get(pid) ?? ["-", null];
      const open = verdicts.get(`${tp} ${pid}`);
      const mismatch = open && open.verdict !== "alive" ? `${open.verdict}: ${open.reason}` : one.first >= 0 && open ? "none" : "-";
      return html`<tr class=${open?.verdict ?? ""}>
        <td><button class="link" onClick=${() => { partition.value = tp; choose("stage"); }}>${tp}</button></td>
        <td>${pid}</td><td>${one.epoch}</td><td>${one.seq}</td>
        <td>${one.first >= 0 ? html`${one.first} ${one.i >= 0 && html`<${Event} i=${one.i} />`}` : "-"}</td>
        <td>${id}</td><td>${entry?.state ?? "-"}</td><td>${entry?.epoch ?? "-"}</td>
        <td>${entry ? (entry.partitions.includes(tp) ? "yes" : "no") : "-"}</td><td>${mismatch}</td></tr>`;
    })}</tbody></table>
    ${left.length > 0 && html`<p class="hint">${left.length} more producers are not shown, ${left.filter(({ one }) => one.first >= 0).length} of them with an open transaction.</p>`}
    <p class="hint">The left half is what the partition's leader knows, the right half what the coordinator knows.
      A hanging transaction is a disagreement between the two.</p>`;
}
