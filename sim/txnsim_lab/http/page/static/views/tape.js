// @ts-check
// Draws a partition as a tape: batches and markers with their transactions, and where readers stop.

import { html } from "../html.js";
import { transactionLabel } from "../tape.js";

export const CELL_STATUS_WORDS = {
  plain: "no transaction", open: "open", committed: "committed", aborted: "aborted",
  hanging: "hanging", alive: "open", decided: "decided, marker owed", COMMIT: "COMMIT marker", ABORT: "ABORT marker",
};
const CELL_STATUS_SIGNS = { plain: "·", open: "…", committed: "✓", aborted: "✕", hanging: "!", decided: "◇", COMMIT: "✓", ABORT: "✕" };
const VALUE_LENGTH_MAX = 24;

/** The classes of a transaction's hue and pattern: twenty pairs, then they repeat. */
export const hueClassesOf = (transaction) => (transaction ? `hue${transaction.hue % 5} pattern${transaction.hue % 4}` : "huenone");

/** `logTape`: what `tapeOf` in tape.js returns; `open`: the open transactions of the partition, as the server judges. */
export function Tape({ tp, log, hw, logTape, open, repeatReasonByMarker = {}, onChoose }) {
  const { cells, far, earlierCount, spans } = logTape;
  const cellStatus = (cell) => {
    if (cell.how !== "open") return cell.how;
    const openVerdict = open.find((candidate) => candidate.producer_id === cell.pid && cell.last >= candidate.first);
    return openVerdict && openVerdict.verdict !== "alive" ? openVerdict.verdict : "open";
  };
  const hangingByProducer = new Map(open.filter((openVerdict) => openVerdict.verdict === "hanging").map((openVerdict) => [openVerdict.producer_id, openVerdict]));
  const renderCell = (cell, n) => html`<${Cell} key=${cell.i} cell=${cell} repeatReason=${cell.isMarker ? repeatReasonByMarker[`${tp} ${cell.first}`] : undefined} how=${cellStatus(cell)} log=${log} hw=${hw} onChoose=${onChoose}><${TransactionBrackets} spans=${spans[n] ?? []} hangingByProducer=${hangingByProducer} /><//>`;
  return html`<ol class="tape" tabindex="0" aria-label=${`Batches of ${tp}`} ref=${scrollToLso}>
    ${earlierCount > 0 && html`<li class="cell more">${earlierCount} earlier</li>`}
    ${far && renderCell(far.cell, -1)}
    ${far?.between > 0 && html`<li class="cell more">${far.between} more</li>`}
    ${cells.map(renderCell)}
    <li class=${log.lso < log.end ? "unread" : ""}><${OffsetMarks} first=${log.end} last=${Infinity} log=${log} hw=${hw} /><span class="cell end"><b>${log.end}</b><i>log end</i></span><${TransactionBrackets} spans=${spans.at(-1)} hangingByProducer=${hangingByProducer} /></li>
  </ol>`;
}

/** Marks for the last stable offset and the high watermark, if they are in a cell and known. */
const OffsetMarks = ({ first, last, log, hw }) => {
  const offsetMarks = [["LSO", log.lso], ["HW", hw]].filter(([, offset]) => offset !== null && first <= offset && offset <= last);
  return offsetMarks.length > 0 && html`<span class=${`caret${offsetMarks[0][0] === "LSO" ? " lso" : ""}`}>${offsetMarks.map(([name, offset]) => `${name} ${offset}`).join(" · ")}</span>`;
};

/** Brackets over a cell: each reaches from the first record of a transaction to its marker, if there is one. */
const TransactionBrackets = ({ spans, hangingByProducer }) => spans.map((bracket, row) => bracket && html`<span class=${`bracket ${bracket.part} ${hangingByProducer.has(bracket.pid) ? "hangs" : hueClassesOf(bracket.t).split(" ")[0]}`} style=${{ "--row": row }} title=${bracket.t ? transactionLabel(bracket.t) : `producer ${bracket.pid}`}>${bracket.part === `from` && hangingByProducer.has(bracket.pid)
  && html`<em>${hangingByProducer.get(bracket.pid).mark}</em>`}</span>`);

function Cell({ cell, repeatReason, how, log, hw, onChoose, children }) {
  const offsetsText = cell.first === cell.last ? cell.first : `${cell.first}–${cell.last}`;
  const { t } = cell;
  const valuesText = cell.values?.filter(Boolean).map((recordValue) => `“${recordValue}”`).join(", ") ?? "";
  const shownValues = valuesText.length > VALUE_LENGTH_MAX ? `${valuesText.slice(0, VALUE_LENGTH_MAX)}…` : valuesText;
  const ownerName = t ? transactionLabel(t) : cell.pid >= 0 ? `producer ${cell.pid}` : "";
  return html`<li class=${cell.last >= log.lso ? "unread" : ""}>
    <${OffsetMarks} first=${cell.first} last=${cell.last} log=${log} hw=${hw} />
    <button class=${`cell ${how} ${hueClassesOf(t)}`} onClick=${() => onChoose?.(cell)}
      title=${`${offsetsText}: ${valuesText ? `${valuesText}, ` : ""}${CELL_STATUS_WORDS[how]}${repeatReason ? `, again: ${repeatReason}` : ""}${cell.pid >= 0 ? `, producer ${cell.pid}, epoch ${cell.epoch}` : ""}`}>
      <b>${offsetsText}</b>${shownValues && html`<span class="record">${shownValues}</span>`}<i>${CELL_STATUS_SIGNS[how]} ${CELL_STATUS_WORDS[how]}${repeatReason ? ", again" : ""}</i><small>${ownerName}</small>${repeatReason && html`<small class="again">${repeatReason}</small>`}
    </button>${children}</li>`;
}

/** Scroll the tape to where readers stop, not to its oldest end. */
const scrollToLso = (list) => {
  const lsoMark = list?.querySelector(".caret.lso");
  if (lsoMark) list.scrollLeft = Math.max(0, lsoMark.parentElement.offsetLeft - list.clientWidth / 2);
};
