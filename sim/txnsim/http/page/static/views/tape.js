// @ts-check
// A partition as a tape: batches and markers with their transaction, and where readers stop.

import { html } from "../html.js";
import { at, explained, go, indexOf } from "../store.js";
import { tape, transactionOf, valuesOf } from "../tape.js";

export const SAY = {
  plain: "no transaction", open: "open", committed: "committed", aborted: "aborted",
  hanging: "hanging", alive: "open", decided: "decided, marker owed", COMMIT: "COMMIT marker", ABORT: "ABORT marker",
};
const SIGN = { plain: "·", open: "…", committed: "✓", aborted: "✕", hanging: "!", decided: "◇", COMMIT: "✓", ABORT: "✕" };
const VALUE_MAX = 24;

/** A transaction as the page calls it: T1 of app. */
export const nameOf = (one) => `T${one.number}`;
/** One hue and one pattern for each transaction: twenty, then again. */
export const hueOf = (one) => (one ? `hue${one.hue % 5} pattern${one.hue % 4}` : "huenone");

export function Tape({ tp, log }) {
  const open = (explained.value?.open ?? []).filter((one) => one.partition === tp);
  const { cells, far, earlier } = tape(tp, at.value, log.lso);
  const values = valuesOf(cells);
  const verdict = (cell) => {
    if (cell.how !== "open") return cell.how;
    const one = open.find((found) => found.producer_id === cell.pid && cell.last >= found.first);
    return one && one.verdict !== "alive" ? one.verdict : "open";
  };
  const shown = (cell) => html`<${Cell} key=${cell.i} cell=${cell} how=${verdict(cell)} log=${log} values=${values.get(cell.i)} />`;
  return html`<ol class="tape" tabindex="0" aria-label=${`Batches of ${tp}`} ref=${toLso}>
    ${earlier > 0 && html`<li class="cell more">${earlier} earlier</li>`}
    ${far && shown(far.cell)}
    ${far?.between > 0 && html`<li class="cell more">${far.between} more</li>`}
    ${cells.map(shown)}
    <li class=${log.lso < log.end ? "unread" : ""}>${log.lso >= log.end && html`<span class="caret">LSO</span>`}<span class="cell end"><b>${log.end}</b><i>log end</i></span></li>
  </ol>`;
}

function Cell({ cell, how, log, values }) {
  const offsets = cell.first === cell.last ? cell.first : `${cell.first}–${cell.last}`;
  const t = transactionOf(cell.event);
  const value = values?.filter(Boolean).map((one) => `“${one}”`).join(", ") ?? "";
  const text = value.length > VALUE_MAX ? `${value.slice(0, VALUE_MAX)}…` : value;
  const whose = t ? `${nameOf(t)} of ${t.id}` : cell.pid >= 0 ? `producer ${cell.pid}` : "";
  return html`<li class=${cell.last >= log.lso ? "unread" : ""}>
    ${cell.first <= log.lso && log.lso <= cell.last && html`<span class="caret">LSO</span>`}
    <button class=${`cell ${how} ${hueOf(t)}`} onClick=${() => go(indexOf(cell.i))}
      title=${`${offsets}: ${value ? `${value}, ` : ""}${SAY[how]}${cell.pid >= 0 ? `, producer ${cell.pid}, epoch ${cell.epoch}` : ""}`}>
      <b>${offsets}</b>${text && html`<span class="record">${text}</span>`}<i>${SIGN[how]} ${SAY[how]}</i><small>${whose}</small>
    </button></li>`;
}

/** The tape shows where readers stop, and not its oldest end. */
const toLso = (list) => {
  const caret = list?.querySelector(".caret");
  if (caret) list.scrollLeft = Math.max(0, caret.parentElement.offsetLeft - list.clientWidth / 2);
};
