// @ts-check
// Brokers and leaders: stop, kill, start, move a leader.

import { act, drive, post } from "../api.js";
import { html } from "../html.js";
import { canAct, source, state } from "../store.js";

export function Cluster() {
  const { now } = state.value;
  const isLive = source.value.kind === "live";
  const brokers = Object.entries(now.brokers).sort();
  const logs = Object.entries(now.logs).filter(([tp]) => !tp.startsWith("__")).sort();
  const doing = (id, verb) => () => act(() => (isLive ? post(`/brokers/${id}/${verb}`) : drive({ cluster: { do: verb, broker: Number(id) } })));
  const ids = brokers.map(([node]) => Number(node.split("/")[1]));
  return html`
    <table class="wide"><caption>Brokers</caption><thead><tr><th>broker</th><th>state</th><th>leads</th><th>do</th></tr></thead><tbody>
      ${brokers.map(([node, how]) => {
        const id = node.split("/")[1];
        return html`<tr><td>${node}</td><td>${how === "running" ? "● running" : `○ ${how}`}</td>
          <td>${logs.filter(([, log]) => String(log.leader) === id).map(([tp]) => tp).join(", ") || "-"}</td>
          <td>${canAct.value && how === "running" && html`<button onClick=${doing(id, "stop")}>Stop<span class="sr"> ${node}</span></button>
            <button onClick=${doing(id, "kill")}>Kill<span class="sr"> ${node}</span></button>`}
            ${canAct.value && how !== "running" && html`<button onClick=${doing(id, "start")}>Start<span class="sr"> ${node}</span></button>`}</td></tr>`;
      })}</tbody></table>
    <table class="wide"><caption>Partitions</caption><thead><tr><th>partition</th><th>leader</th><th>epoch</th><th>move the leader to</th></tr></thead><tbody>
      ${logs.length === 0 && html`<tr><td colspan="4">none</td></tr>`}
      ${logs.map(([tp, log]) => {
        const dash = tp.lastIndexOf("-");
        const where = { topic: tp.slice(0, dash), partition: Number(tp.slice(dash + 1)) };
        return html`<tr><td>${tp}</td><td>broker ${log.leader}</td><td>${log.epoch}</td><td>${canAct.value
          ? ids.filter((id) => id !== log.leader).map((id) => html`<button onClick=${() => act(() => (isLive ? post("/leaders", { ...where, leader: id }) : drive({ cluster: { do: "move-leader", partition: tp, to: id } })))}>broker ${id}<span class="sr"> leads ${tp}</span></button> `)
          : "-"}</td></tr>`;
      })}</tbody></table>
    ${!canAct.value && html`<p class="hint">This is a recorded run: brokers can be stopped in a live cluster, and in a run that waits at a step.</p>`}`;
}
