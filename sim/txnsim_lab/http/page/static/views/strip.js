// @ts-check
// What the coordinator believes of a transactional id, and what readers of a partition get.

import { html } from "../html.js";
import { belief } from "../stage.js";
import { chooseView, chosenTransactionalId } from "../store.js";
import { transactionLabel } from "../tape.js";
import { hueClassesOf } from "./tape.js";

/** What the coordinator believes of a transactional id; `isShort` for one that has nothing open while others have. */
export function CoordinatorBelief({ idBelief, isShort = false }) {
  const { id, entry, passed, t, owed } = idBelief;
  if (isShort) return html`<div class="strip"><p><b>${id}</b> <span class="state">${entry.state}</span> ${t && html`<span class=${`t ${hueClassesOf(t)}`}>${transactionLabel(t)}</span>`} It ${belief(idBelief)}.</p></div>`;
  return html`<div class="strip"><h3>${id} <small>${entry.node.startsWith("broker/") ? `coordinator: broker ${entry.node.split("/")[1]}` : "no coordinator has it loaded"}</small></h3>
    <p class="states">${passed.map((name, n) => html`${n > 0 && html`<span aria-hidden="true"> → </span>`}
      <span class=${`state${n === passed.length - 1 ? " now" : ""}`}>${name}</span>`)}
      ${entry.pending && html`<span aria-hidden="true"> → </span><span class="state pending">${entry.pending}<span class="sr">, being written</span></span>`}
      <span class="belief">${t && html`<span class=${`t ${hueClassesOf(t)}`}>${transactionLabel(t)}</span>`} <b>It ${belief(idBelief)}.</b></span></p>
    <p class="facts">producer ${entry.pid}, epoch ${entry.epoch} · partitions: ${(entry.partitions ?? []).join(", ") || "none"} · markers owed: ${owed.map((owedMarker) => owedMarker.tp).join(", ") || "none"} · <button class="link" onClick=${() => { chosenTransactionalId.value = id; chooseView("coordinator"); }}>all moves<span class="sr"> of ${id}</span></button></p></div>`;
}

/** A sentence about how far a read_committed consumer gets. */
export const consumerSentence = ({ end, lso, producers }) => (lso < end
  ? `A read_committed consumer stops at ${lso}: it gets nothing from here on, ${end - lso} ${end - lso === 1 ? "offset" : "offsets"} before the log end${
    Object.values(producers).some(({ first }) => first === lso) ? ". Only a marker can tell it whether the transaction there counts" : ""}.`
  : "A read_committed consumer gets everything up to the log end, but no aborted record.");

export const MESSAGE_STATUS_WORDS = { held: "held", delayed: "delayed", released: "was held, released", owed: "on its way", delivered: "delivered", refused: "refused", lost: "lost", cancelled: "never sent", doubled: "arrives twice" };
