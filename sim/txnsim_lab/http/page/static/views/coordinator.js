// @ts-check
// The state machine of a transactional id, with the cause of its last change of state.

import { html } from "../html.js";
import { countUpTo } from "../book.js";
import { parseOwedKey } from "../reducer.js";
import { shownIndex, events, stateMovesOf, shownState, chosenTransactionalId, shownCausesOf } from "../store.js";
import { millisecondsText, stateWithMeaning } from "../words.js";
import { EventLink } from "./event.js";
import { NothingYet } from "./practise.js";

const STATE_BOXES = {
  Empty: [20, 160], Ongoing: [230, 160], PrepareCommit: [450, 60], PrepareAbort: [450, 260],
  CompleteCommit: [670, 60], CompleteAbort: [670, 260], PrepareEpochFence: [230, 260], Dead: [20, 330],
};
/** Changes of state that Kafka allows (transaction.version 2) -> the path that draws each around the boxes. Tests
 *  compare them with the coordinator's table. */
const STATE_EDGES = {
  "Empty Ongoing": "M160 178H228", "Ongoing PrepareCommit": "M360 160L460 98", "Ongoing PrepareAbort": "M360 196L460 258",
  "PrepareCommit CompleteCommit": "M590 78H668", "PrepareAbort CompleteAbort": "M590 270H668",
  "Ongoing PrepareEpochFence": "M300 196V258", "PrepareEpochFence PrepareAbort": "M370 278H448", "Empty Dead": "M90 196V328",
  "CompleteCommit Ongoing": "M720 60V32H310V158", "CompleteCommit Empty": "M745 60V12H60V158",
  "CompleteAbort Ongoing": "M720 260V178H372", "CompleteAbort Empty": "M750 260V126H110V158",
  "CompleteCommit Dead": "M810 78H828V360H162", "CompleteAbort Dead": "M745 296V344H162",
  "Empty PrepareAbort": "M130 196V314H500V298", "CompleteCommit PrepareAbort": "M690 96L575 258",
  "CompleteAbort PrepareAbort": "M670 287H592", "Empty Empty": "M20 168C-12 158 -12 202 18 190", "Ongoing Ongoing": "M240 160C232 134 276 134 268 158",
};
const BOX_WIDTH = 140, BOX_HEIGHT = 36;

export function Coordinator() {
  const { clusterState } = shownState.value;
  const transactionalIds = Object.keys(clusterState.transactions).sort();
  if (!transactionalIds.length) return html`<${NothingYet} title="No transactional id yet">An application chooses it (transactional.id), and its first request, InitProducerId, makes it known to a coordinator. Then the states of its transactions are drawn here, with what caused the last change.<//>`;
  const shownId = transactionalIds.includes(chosenTransactionalId.value) ? chosenTransactionalId.value : transactionalIds[0];
  const coordinatorEntry = clusterState.transactions[shownId];
  const moveIndices = stateMovesOf(shownId);
  const moveCount = countUpTo(moveIndices, shownIndex.value);
  const lastMoveEvent = moveCount ? events[moveIndices[moveCount - 1]] : null;
  const stateBefore = moveCount > 1 ? events[moveIndices[moveCount - 2]].d.state : null;
  const lastMove = stateBefore && `${stateBefore} ${coordinatorEntry.state}`;
  const moveCauses = lastMoveEvent ? shownCausesOf(lastMoveEvent) : [];
  const owedMarkers = Object.entries(clusterState.owed).filter(([key]) => parseOwedKey(key).id === shownId);
  return html`
    <div class="bar"><label>Transactional id <select id="txn" value=${shownId} onChange=${(e) => (chosenTransactionalId.value = e.target.value)}>
      ${transactionalIds.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      <span>at <code>${coordinatorEntry.node}</code></span></div>
    <svg class="machine" viewBox="-14 0 850 372" role="img"
      aria-label=${`${shownId} is ${coordinatorEntry.state}${coordinatorEntry.pending ? `, on its way to ${coordinatorEntry.pending}` : ""}`}>
      <defs>${["", "-last"].map((markerSuffix) => html`<marker id=${`arrow${markerSuffix}`} class=${`arrow${markerSuffix}`} viewBox="0 0 8 8" refX="7" refY="4"
        markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" /></marker>`)}</defs>
      ${Object.entries(STATE_EDGES).map(([move, path]) => html`<path class=${`edge${move === lastMove ? " last" : ""}`} d=${path}
        marker-end=${`url(#arrow${move === lastMove ? "-last" : ""})`} data-move=${move}><title>${move.replace(" ", " → ")}</title></path>`)}
      ${Object.entries(STATE_BOXES).map(([name, [x, y]]) => html`
        <g class=${`box${name === coordinatorEntry.state ? " now" : ""}${name === coordinatorEntry.pending ? " pending" : ""}`}>
          <rect x=${x} y=${y} width=${BOX_WIDTH} height=${BOX_HEIGHT} rx="5" />
          <text x=${x + BOX_WIDTH / 2} y=${y + 23}>${name === coordinatorEntry.state ? "● " : name === coordinatorEntry.pending ? "→ " : ""}${name}</text></g>`)}
    </svg>
    <div class="columns">
      <table><caption>Entry</caption><tbody>
        ${["state", "pending", "pid", "epoch", "last_epoch", "timeout_ms", "version"].map((name) => html`
          <tr><th scope="row">${name}</th><td>${name === "state" ? stateWithMeaning(coordinatorEntry.state) : coordinatorEntry[name] ?? "-"}</td></tr>`)}
        <tr><th scope="row">partitions</th><td>${(coordinatorEntry.partitions ?? []).join(", ") || "-"}</td></tr>
      </tbody></table>
      <table><caption>Markers that are owed</caption><tbody>
        ${owedMarkers.length === 0 && html`<tr><td>none</td></tr>`}
        ${owedMarkers.map(([key, owedMarker]) => html`<tr><td>${parseOwedKey(key).tp}</td>
          <td>${owedMarker.committed ? "✓ COMMIT" : "✕ ABORT"}</td><td>${owedMarker.how}${owedMarker.error ? `: ${owedMarker.error}` : ""}</td><td><${EventLink} i=${owedMarker.i} /></td></tr>`)}
      </tbody></table>
      <div><h2>The last move, and what caused it</h2>
        <ol class="chain">${moveCauses.map((cause) => html`<li><${EventLink} i=${cause.i} /> <small>${cause.node}, ${millisecondsText(cause)}</small></li>`)}</ol></div>
    </div>`;
}
