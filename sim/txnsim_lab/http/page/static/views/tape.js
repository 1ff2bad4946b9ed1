// @ts-check
// Draws a partition as a tape: batches and markers with their transactions, and where readers stop.

import { html } from "../html.js";
import { nameOf } from "../tape.js";

export const CELL_WORDS = {
  plain: "no transaction", open: "open", committed: "committed", aborted: "aborted",
  hanging: "hanging", alive: "open", decided: "decided, marker owed", COMMIT: "COMMIT marker", ABORT: "ABORT marker",
};
const SIGN = { plain: "·", open: "…", committed: "✓", aborted: "✕", hanging: "!", decided: "◇", COMMIT: "✓", ABORT: "✕" };
const VALUE_MAX = 24;

/** The classes of a transaction's hue and pattern: twenty pairs, then they repeat. */
export const hueOf = (transaction) => (transaction ? `hue${transaction.hue % 5} pattern${transaction.hue % 4}` : "huenone");

/** `logTape`: what `tape` in tape.js returns; `open`: the open transactions of the partition, as the server judges. */
export function Tape({ tp, log, hw, logTape, open, onChoose }) {
  const { cells, far, earlier, spans } = logTape;
  const verdictOf = (cell) => {
    if (cell.how !== "open") return cell.how;
    const openVerdict = open.find((candidate) => candidate.producer_id === cell.pid && cell.last >= candidate.first);
    return openVerdict && openVerdict.verdict !== "alive" ? openVerdict.verdict : "open";
  };
  const hangs = new Map(open.filter((openVerdict) => openVerdict.verdict === "hanging").map((openVerdict) => [openVerdict.producer_id, openVerdict]));
  const renderCell = (cell, n) => html`<${Cell} key=${cell.i} cell=${cell} how=${verdictOf(cell)} log=${log} hw=${hw} onChoose=${onChoose}><${Brackets} spans=${spans[n] ?? []} hangs=${hangs} /><//>`;
  return html`<ol class="tape" tabindex="0" aria-label=${`Batches of ${tp}`} ref=${scrollToLso}>
    ${earlier > 0 && html`<li class="cell more">${earlier} earlier</li>`}
    ${far && renderCell(far.cell, -1)}
    ${far?.between > 0 && html`<li class="cell more">${far.between} more</li>`}
    ${cells.map(renderCell)}
    <li class=${log.lso < log.end ? "unread" : ""}><${Carets} first=${log.end} last=${Infinity} log=${log} hw=${hw} /><span class="cell end"><b>${log.end}</b><i>log end</i></span><${Brackets} spans=${spans.at(-1)} hangs=${hangs} /></li>
  </ol>`;
}

/** Marks for the last stable offset and the high watermark, if they are in a cell and known. */
const Carets = ({ first, last, log, hw }) => {
  const carets = [["LSO", log.lso], ["HW", hw]].filter(([, offset]) => offset !== null && first <= offset && offset <= last);
  return carets.length > 0 && html`<span class=${`caret${carets[0][0] === "LSO" ? " lso" : ""}`}>${carets.map(([name, offset]) => `${name} ${offset}`).join(" · ")}</span>`;
};

/** Brackets over a cell: each reaches from the first record of a transaction to its marker, if there is one. */
const Brackets = ({ spans, hangs }) => spans.map((bracket, row) => bracket && html`<span class=${`bracket ${bracket.part} ${hangs.has(bracket.pid) ? "hangs" : hueOf(bracket.t).split(" ")[0]}`} style=${{ "--row": row }} title=${bracket.t ? nameOf(bracket.t) : `producer ${bracket.pid}`}>${bracket.part === `from` && hangs.has(bracket.pid)
  && html`<em>open from here · no marker will come</em>`}</span>`);

function Cell({ cell, how, log, hw, onChoose, children }) {
  const offsets = cell.first === cell.last ? cell.first : `${cell.first}–${cell.last}`;
  const { t } = cell;
  const valuesText = cell.values?.filter(Boolean).map((recordValue) => `“${recordValue}”`).join(", ") ?? "";
  const text = valuesText.length > VALUE_MAX ? `${valuesText.slice(0, VALUE_MAX)}…` : valuesText;
  const ownerName = t ? nameOf(t) : cell.pid >= 0 ? `producer ${cell.pid}` : "";
  return html`<li class=${cell.last >= log.lso ? "unread" : ""}>
    <${Carets} first=${cell.first} last=${cell.last} log=${log} hw=${hw} />
    <button class=${`cell ${how} ${hueOf(t)}`} onClick=${() => onChoose?.(cell)}
      title=${`${offsets}: ${valuesText ? `${valuesText}, ` : ""}${CELL_WORDS[how]}${cell.repeatReason ? `, again: ${cell.repeatReason}` : ""}${cell.pid >= 0 ? `, producer ${cell.pid}, epoch ${cell.epoch}` : ""}`}>
      <b>${offsets}</b>${text && html`<span class="record">${text}</span>`}<i>${SIGN[how]} ${CELL_WORDS[how]}${cell.repeatReason ? ", again" : ""}</i><small>${ownerName}</small>${cell.repeatReason && html`<small class="again">${cell.repeatReason}</small>`}
    </button>${children}</li>`;
}

/** Scroll the tape to where readers stop, not to its oldest end. */
const scrollToLso = (list) => {
  const caret = list?.querySelector(".caret.lso");
  if (caret) list.scrollLeft = Math.max(0, caret.parentElement.offsetLeft - list.clientWidth / 2);
};
