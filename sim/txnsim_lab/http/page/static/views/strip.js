// @ts-check
// What the coordinator believes of a transactional id, and how far readers of a partition get.

import { html } from "../html.js";
import { chooseView, chosenTransactionalId } from "../store.js";
import { transactionLabel } from "../tape.js";
import { hueClassesOf } from "./tape.js";

/** What the coordinator believes of a transactional id; `isShort` for one that has nothing open while others have. */
export function CoordinatorBelief({ idBelief, sentence, isShort = false }) {
  const { id, entry, passed, transaction, owed } = idBelief;
  if (isShort) return html`<div class="strip"><p><b>${id}</b> <span class="state">${entry.state}</span> ${transaction && html`<span class=${`t ${hueClassesOf(transaction)}`}>${transactionLabel(transaction)}</span>`} ${sentence && `${sentence}.`}</p></div>`;
  return html`<div class="strip"><h3>${id} <small>${entry.node.startsWith("broker/") ? `coordinator: broker ${entry.node.split("/")[1]}` : "no coordinator has it loaded"}</small></h3>
    <p class="states">${passed.map((name, n) => html`${n > 0 && html`<span aria-hidden="true"> → </span>`}
      <span class=${`state${n === passed.length - 1 ? " now" : ""}`}>${name}</span>`)}
      ${entry.pending && html`<span aria-hidden="true"> → </span><span class="state pending">${entry.pending}<span class="sr">, being written</span></span>`}
      <span class="belief">${transaction && html`<span class=${`t ${hueClassesOf(transaction)}`}>${transactionLabel(transaction)}</span>`} <b>${sentence && `${sentence}.`}</b></span></p>
    <p class="facts">producer ${entry.pid}, epoch ${entry.epoch} · partitions: ${(entry.partitions ?? []).join(", ") || "none"} · markers owed: ${owed.map((owedMarker) => owedMarker.tp).join(", ") || "none"} · <button class="link" onClick=${() => { chosenTransactionalId.value = id; chooseView("coordinator"); }}>all moves<span class="sr"> of ${id}</span></button></p></div>`;
}

/** The judge's first sentence on a partition: how far readers get. */
export const readersSentence = (serverExplanation, tp) => serverExplanation?.verdict.partitions.find(({ partition }) => partition === tp)?.sentences[0] ?? "";
