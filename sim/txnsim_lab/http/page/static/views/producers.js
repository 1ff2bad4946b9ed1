// @ts-check
// Producers: what the partition's leader says of each, what its coordinator says, and where they disagree.

import { html } from "../html.js";
import { chooseView, moment, partition } from "../store.js";
import { READING } from "../agreement.js";
import { Event } from "./event.js";

const SHOWN = 100;

/** Producer id -> what partitions say of it; those with an open transaction first. */
function producersOf(logs) {
  const found = new Map();
  for (const [tp, log] of Object.entries(logs)) {
    if (tp.startsWith("__")) continue;
    for (const [pid, one] of Object.entries(log.producers)) found.set(pid, [...(found.get(pid) ?? []), { tp, one }]);
  }
  const isOpen = ([, some]) => some.some(({ one }) => one.first >= 0);
  return [...found].sort((a, b) => Number(isOpen(b)) - Number(isOpen(a)));
}

export function Producers() {
  const { now, said, error, open, position } = moment.value;
  const ids = new Map(Object.entries(now.transactions).map(([id, one]) => [String(one.pid), [id, one]]));
  const all = producersOf(now.logs);
  const verdicts = new Map(open.map((one) => [`${one.partition} ${one.producer_id}`, one]));
  const mismatch = (tp, pid) => {
    const found = verdicts.get(`${tp} ${pid}`);
    return found && found.verdict !== "alive" ? { ...found, text: `${tp}: ${found.verdict}: ${found.reason}` } : null;
  };
  return html`<table class="wide producers"><caption>Producers</caption>
    <thead><tr><th colspan="4" scope="colgroup">the partition says</th><th colspan="4" scope="colgroup">the coordinator says</th></tr>
      <tr><th>partition</th><th>epoch</th><th>last sequence</th><th>open since</th><th>transactional id</th><th>state at the coordinator</th><th>epoch</th><th>lists it</th></tr></thead>
    ${all.length === 0 && html`<tbody><tr><td colspan="8">none</td></tr></tbody>`}
    ${all.slice(0, SHOWN).map(([pid, some]) => {
      const [id, entry] = ids.get(pid) ?? ["-", null];
      const mismatches = some.map(({ tp }) => mismatch(tp, pid)).filter(Boolean).sort((a, b) => (b.verdict === "hanging") - (a.verdict === "hanging"));
      const sentence = mismatches.length ? html`<b>${mismatches[0].verdict === "decided" ? "They will agree." : "They disagree."}</b> ${mismatches.map((one) => one.text).join("; ")}`
        : entry?.state.startsWith("Prepare") ? html`<b>They will agree.</b> ${id} is ${entry.state}, and not complete.` : "They agree.";
      return html`<tbody><tr class=${`title ${mismatches[0]?.verdict ?? ""}`}><th colspan="8" scope="rowgroup"><b>producer ${pid}</b> ${said ? sentence : error || READING}</th></tr>
        ${some.map(({ tp, one }, n) => html`<tr><td><button class="link" onClick=${() => { partition.value = tp; chooseView("stage"); }}>${tp}</button></td>
          <td>${one.epoch}</td><td>${one.seq}</td>
          <td>${one.first >= 0 ? html`${one.first} ${one.i >= 0 && html`<${Event} i=${one.i} />`}` : "-"}</td>
          <td class="coordinator">${n ? "" : id}</td><td>${n ? "" : (entry?.state ?? "-")}</td><td>${n ? "" : (entry?.epoch ?? "-")}</td>
          <td>${entry ? (entry.partitions.includes(tp) ? "yes" : "no") : "-"}</td></tr>`)}</tbody>`;
    })}</table>
    ${all.length > SHOWN && html`<p class="hint">${all.length - SHOWN} more producers are not shown.</p>`}
    <p class="hint">A hanging transaction is a disagreement between the two halves.${said && ` This is said of event #${position}.`}</p>`;
}
