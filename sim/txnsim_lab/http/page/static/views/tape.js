// @ts-check
// A partition as a tape: batches and markers with their transaction, and where readers stop.

import { html } from "../html.js";
import { nameOf } from "../tape.js";

export const SAY = {
  plain: "no transaction", open: "open", committed: "committed", aborted: "aborted",
  hanging: "hanging", alive: "open", decided: "decided, marker owed", COMMIT: "COMMIT marker", ABORT: "ABORT marker",
};
const SIGN = { plain: "·", open: "…", committed: "✓", aborted: "✕", hanging: "!", decided: "◇", COMMIT: "✓", ABORT: "✕" };
const VALUE_MAX = 24;

/** One hue and one pattern for each transaction: twenty, then again. */
export const hueOf = (one) => (one ? `hue${one.hue % 5} pattern${one.hue % 4}` : "huenone");

/** `of` is a tape as tape.js makes it, `open` the open transactions of the partition as the server judges. */
export function Tape({ tp, log, hw, of, open, onChoose }) {
  const { cells, far, earlier, spans } = of;
  const verdict = (cell) => {
    if (cell.how !== "open") return cell.how;
    const one = open.find((found) => found.producer_id === cell.pid && cell.last >= found.first);
    return one && one.verdict !== "alive" ? one.verdict : "open";
  };
  const hangs = new Map(open.filter((one) => one.verdict === "hanging").map((one) => [one.producer_id, one]));
  const shown = (cell, n) => html`<${Cell} key=${cell.i} cell=${cell} how=${verdict(cell)} log=${log} hw=${hw} onChoose=${onChoose}><${Brackets} spans=${spans[n] ?? []} hangs=${hangs} /><//>`;
  return html`<ol class="tape" tabindex="0" aria-label=${`Batches of ${tp}`} ref=${toLso}>
    ${earlier > 0 && html`<li class="cell more">${earlier} earlier</li>`}
    ${far && shown(far.cell, -1)}
    ${far?.between > 0 && html`<li class="cell more">${far.between} more</li>`}
    ${cells.map(shown)}
    <li class=${log.lso < log.end ? "unread" : ""}><${Carets} first=${log.end} last=${Infinity} log=${log} hw=${hw} /><span class="cell end"><b>${log.end}</b><i>log end</i></span><${Brackets} spans=${spans.at(-1)} hangs=${hangs} /></li>
  </ol>`;
}

/** Where readers stop, and where replicas do: what is known of them is drawn. */
const Carets = ({ first, last, log, hw }) => {
  const some = [["LSO", log.lso], ["HW", hw]].filter(([, offset]) => offset !== null && first <= offset && offset <= last);
  return some.length > 0 && html`<span class=${`caret${some[0][0] === "LSO" ? " lso" : ""}`}>${some.map(([name, offset]) => `${name} ${offset}`).join(" · ")}</span>`;
};

/** From the first record of a transaction to its marker; it has no end where none came. */
const Brackets = ({ spans, hangs }) => spans.map((one, row) => one && html`<span class=${`bracket ${one.part} ${hangs.has(one.pid) ? "hangs" : hueOf(one.t).split(" ")[0]}`} style=${{ "--row": row }} title=${one.t ? nameOf(one.t) : `producer ${one.pid}`}>${one.part === `from` && hangs.has(one.pid)
  && html`<em>open from here · no marker will come</em>`}</span>`);

function Cell({ cell, how, log, hw, onChoose, children }) {
  const offsets = cell.first === cell.last ? cell.first : `${cell.first}–${cell.last}`;
  const { t } = cell;
  const value = cell.values?.filter(Boolean).map((one) => `“${one}”`).join(", ") ?? "";
  const text = value.length > VALUE_MAX ? `${value.slice(0, VALUE_MAX)}…` : value;
  const whose = t ? nameOf(t) : cell.pid >= 0 ? `producer ${cell.pid}` : "";
  return html`<li class=${cell.last >= log.lso ? "unread" : ""}>
    <${Carets} first=${cell.first} last=${cell.last} log=${log} hw=${hw} />
    <button class=${`cell ${how} ${hueOf(t)}`} onClick=${() => onChoose?.(cell)}
      title=${`${offsets}: ${value ? `${value}, ` : ""}${SAY[how]}${cell.again ? `, again: ${cell.again}` : ""}${cell.pid >= 0 ? `, producer ${cell.pid}, epoch ${cell.epoch}` : ""}`}>
      <b>${offsets}</b>${text && html`<span class="record">${text}</span>`}<i>${SIGN[how]} ${SAY[how]}${cell.again ? ", again" : ""}</i><small>${whose}</small>${cell.again && html`<small class="again">${cell.again}</small>`}
    </button>${children}</li>`;
}

/** The tape shows where readers stop, and not its oldest end. */
const toLso = (list) => {
  const caret = list?.querySelector(".caret.lso");
  if (caret) list.scrollLeft = Math.max(0, caret.parentElement.offsetLeft - list.clientWidth / 2);
};
