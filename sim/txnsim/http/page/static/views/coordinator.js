// @ts-check
// The state machine of a transactional id, with the cause of its last move.

import { html } from "../html.js";
import { upTo } from "../book.js";
import { at, events, movesOf, state, transaction, walk } from "../store.js";
import { ms } from "../words.js";
import { Event } from "./event.js";

const BOX = {
  Empty: [10, 100], Ongoing: [200, 100], PrepareCommit: [390, 40], PrepareAbort: [390, 160],
  CompleteCommit: [580, 40], CompleteAbort: [580, 160], PrepareEpochFence: [200, 220], Dead: [10, 220],
};
/** Moves of Kafka's table (transaction.version 2), and how each is drawn. A test holds the two together. */
const EDGES = {
  "Empty Ongoing": "M150 118H198", "Ongoing PrepareCommit": "M340 110L388 66", "Ongoing PrepareAbort": "M340 126L388 170",
  "PrepareCommit CompleteCommit": "M530 58H578", "PrepareAbort CompleteAbort": "M530 178H578",
  "Ongoing PrepareEpochFence": "M270 136V218", "PrepareEpochFence PrepareAbort": "M340 238L388 192", "Empty Dead": "M80 136V218",
  "CompleteCommit Ongoing": "M620 40C600 -2 330 6 292 98", "CompleteCommit Empty": "M650 40C620 -34 120 -10 92 98",
  "CompleteAbort Ongoing": "M600 160C570 116 420 112 342 116", "CompleteAbort Empty": "M700 160C690 84 560 -60 66 98",
  "CompleteCommit Dead": "M718 76C740 300 240 300 152 250", "CompleteAbort Dead": "M650 196C640 300 240 290 152 244",
  "Empty PrepareAbort": "M140 136C190 214 330 214 388 184", "CompleteCommit PrepareAbort": "M600 76L520 158",
  "CompleteAbort PrepareAbort": "M578 190C560 202 548 198 532 188",
};
/** A move within a state is a bow below its box. */
const within = (name) => `M${BOX[name][0] + 50} ${BOX[name][1] + 36}c0 26 40 26 40 2`;
/** Drawn also where they are not the last move; the others would only tangle. */
const USUAL = 10;
const W = 140, H = 36;

export function Coordinator() {
  const { now } = state.value;
  const ids = Object.keys(now.transactions).sort();
  if (!ids.length) return html`<p class="hint">No transactional id yet: a client gets one with InitProducerId.</p>`;
  const id = ids.includes(transaction.value) ? transaction.value : ids[0];
  const entry = now.transactions[id];
  const made = movesOf(id);
  const so = upTo(made, at.value);
  const move = so ? events[made[so - 1]] : null;
  const before = so > 1 ? events[made[so - 2]].d.state : null;
  const chain = move ? walk(move) : [];
  const owed = Object.entries(now.owed).filter(([key]) => key.startsWith(`${id}/`));
  return html`
    <div class="bar"><label>Transactional id <select id="txn" value=${id} onChange=${(e) => (transaction.value = e.target.value)}>
      ${ids.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      <span>at <code>${entry.node}</code></span></div>
    <svg class="machine" viewBox="0 -12 730 274" role="img"
      aria-label=${`${id} is ${entry.state}${entry.pending ? `, on its way to ${entry.pending}` : ""}`}>
      <defs>${["", "-last"].map((which) => html`<marker id=${`arrow${which}`} class=${`arrow${which}`} viewBox="0 0 8 8" refX="7" refY="4"
        markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" /></marker>`)}</defs>
      ${Object.entries(EDGES).slice(0, USUAL).map(([move, path]) => html`<path class="edge" d=${path} marker-end="url(#arrow)" data-move=${move} />`)}
      ${before && html`<path class="edge last" d=${before === entry.state ? within(before) : EDGES[`${before} ${entry.state}`]}
        marker-end="url(#arrow-last)" />`}
      ${Object.entries(BOX).map(([name, [x, y]]) => html`
        <g class=${`box${name === entry.state ? " now" : ""}${name === entry.pending ? " pending" : ""}`}>
          <rect x=${x} y=${y} width=${W} height=${H} rx="5" />
          <text x=${x + W / 2} y=${y + 23}>${name === entry.state ? "● " : name === entry.pending ? "→ " : ""}${name}</text></g>`)}
    </svg>
    <div class="columns">
      <table><caption>Entry</caption><tbody>
        ${["state", "pending", "pid", "epoch", "last_epoch", "timeout_ms", "version"].map((name) => html`
          <tr><th scope="row">${name}</th><td>${entry[name] ?? "-"}</td></tr>`)}
        <tr><th scope="row">partitions</th><td>${(entry.partitions ?? []).join(", ") || "-"}</td></tr>
      </tbody></table>
      <table><caption>Markers that are owed</caption><tbody>
        ${owed.length === 0 && html`<tr><td>none: every partition has its marker</td></tr>`}
        ${owed.map(([key, one]) => html`<tr><td>${key.slice(key.lastIndexOf(" ") + 1)}</td>
          <td>${one.committed ? "✓ COMMIT" : "✕ ABORT"}</td><td>${one.how}${one.error ? `: ${one.error}` : ""}</td><td><${Event} i=${one.i} /></td></tr>`)}
      </tbody></table>
      <div><h2>The last move, and what caused it</h2>
        <ol class="chain">${chain.map((one) => html`<li><${Event} i=${one.i} /> <small>${one.node}, ${ms(one)}</small></li>`)}</ol></div>
    </div>`;
}
