// @ts-check
// The partitions of the cluster: where readers of each stand, and its leader, in the judge's words. A row chooses the
// partition of the picture.

import { useState } from "preact/hooks";
import { html } from "../html.js";
import { chosenPartition, chosenTransactionalId } from "../store.js";

/** So many rows are shown; of more there is a search. */
const ROWS_MAX = 8;

/** The rows: partitions that the judge names, the gravest first, and the chosen one even if it is not there. */
function rowsOf(partitions, deletedNames) {
  const rows = partitions.map(({ partition, standing, leader_id: leader, is_leader_up: isUp, state }) => ({ name: partition, standing, state, leader: leader < 0 ? "none" : String(leader), isUp }));
  const chosenName = chosenPartition.value;
  if (chosenName && !rows.some(({ name }) => name === chosenName)) rows.unshift({ name: chosenName, standing: deletedNames.includes(chosenName) ? "deleted" : "not there", state: "", leader: "none", isUp: true });
  return rows;
}

export function PartitionTable({ partitions, deletedNames = [], shownName }) {
  const [showsAll, setShowsAll] = useState(false);
  const rows = rowsOf(partitions, deletedNames);
  if (!rows.length) return null;
  const isInTable = ({ name }, n) => showsAll || n < ROWS_MAX || name === shownName;
  const choose = (name) => {
    chosenPartition.value = name;
    chosenTransactionalId.value = null;
  };
  return html`<section class="partitions"><table><thead><tr><th scope="col">partition</th><th scope="col">readers</th><th scope="col">leader</th></tr></thead><tbody>
    ${rows.filter(isInTable).map(({ name, standing, state, leader, isUp }) => html`<tr key=${name} class=${`${state}${name === shownName ? " on" : ""}`} data-partition=${name} data-readers=${standing} data-leader=${leader} onClick=${() => choose(name)}>
      <th scope="row"><button class="link" aria-pressed=${name === shownName} onClick=${() => choose(name)}>${name}</button></th><td class="readers-of">${standing}</td>
      <td class=${leader === "none" || !isUp ? "short" : ""}>${leader === "none" ? (state ? "none ✖" : "-") : isUp ? `broker ${leader}` : `broker ${leader} ✖ down`}</td></tr>`)}</tbody></table>
    ${rows.length > ROWS_MAX && html`<p><button class="link" aria-expanded=${showsAll} onClick=${() => setShowsAll(!showsAll)}>${showsAll ? "fewer" : `all ${rows.length} partitions`}</button></p>`}</section>`;
}
