// @ts-check
// Brokers, and partitions with their replicas: stop, kill, start, move a leader.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { ask, doNow, drive, post } from "../api.js";
import { html } from "../html.js";
import { canAct, partition, source, state } from "../store.js";

/** Up to so many partitions are shown as rows; more are shown as boxes. */
const ROWS_MAX = 10;
const LEADS_MAX = 6;
const POLL_MS = 1000;
const DONE_TEXTS = { stop: "has stopped", kill: "was killed", start: "has started" };
/** Ids of brokers that were told to start and don't run yet. */
const starting = signal([]);

export function Cluster() {
  const { now } = state.value;
  const isLive = source.value.kind === "live";
  const replicas = useReplicas(isLive);
  const brokers = Object.entries(now.brokers).sort();
  const logs = Object.entries(now.logs).filter(([tp]) => !tp.startsWith("__")).sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
  const commandBroker = (id, verb) => () => doNow(async () => {
    if (verb === "start") starting.value = [...starting.value, id];
    try {
      await (isLive ? post(`/brokers/${id}/${verb}`) : drive({ cluster: { do: verb, broker: Number(id) } }));
    } finally {
      starting.value = starting.value.filter((brokerId) => brokerId !== id);
    }
  }, `Broker ${id} ${DONE_TEXTS[verb]}.`);
  const moveLeader = (tp, topicPartition, id) => () => doNow(
    () => (isLive ? post("/leaders", { ...topicPartition, leader: id }) : drive({ cluster: { do: "move-leader", partition: tp, to: id } })), `Broker ${id} leads ${tp}.`);
  const ids = brokers.map(([node]) => Number(node.split("/")[1]));
  const rows = logs.length <= ROWS_MAX ? logs : logs.filter(([tp]) => tp === partition.value);
  return html`
    <table class="wide"><caption>Brokers</caption><thead><tr><th>broker</th><th>state</th><th>leads</th><th>do</th></tr></thead><tbody>
      ${brokers.map(([node, status]) => {
        const id = node.split("/")[1];
        const leads = logs.filter(([, log]) => String(log.leader) === id).map(([tp]) => tp);
        return html`<tr><td>${node}</td><td>${status === "running" ? "● running" : starting.value.includes(id) ? "◌ starting …" : `○ ${status}`}</td>
          <td>${leads.length > LEADS_MAX ? `${leads.length} partitions` : leads.join(", ") || "-"}</td>
          <td>${canAct.value && status === "running" && html`<button onClick=${commandBroker(id, "stop")}>Stop<span class="sr"> ${node}</span></button>
            <button onClick=${commandBroker(id, "kill")}>Kill<span class="sr"> ${node}</span></button>`}
            ${canAct.value && status !== "running" && html`<button disabled=${starting.value.includes(id)} onClick=${commandBroker(id, "start")}>Start<span class="sr"> ${node}</span></button>`}</td></tr>`;
      })}</tbody></table>
    ${logs.length > ROWS_MAX && html`<${Boxes} logs=${logs} replicas=${replicas} />`}
    <table class="wide"><caption>Partitions</caption><thead><tr><th>partition</th><th>leader</th><th>replicas</th><th>in sync</th><th>epoch</th><th>move the leader to</th></tr></thead><tbody>
      ${rows.length === 0 && html`<tr><td colspan="6">${logs.length ? "choose one above" : "none"}</td></tr>`}
      ${rows.map(([tp, log]) => {
        const dash = tp.lastIndexOf("-");
        const topicPartition = { topic: tp.slice(0, dash), partition: Number(tp.slice(dash + 1)) };
        const { replicas: replicaIds = [], isr = [] } = replicas.get(tp) ?? {};
        return html`<tr><td>${tp}</td><td>broker ${log.leader}</td><td>${replicaIds.join(", ") || "-"}</td><td class=${isr.length < replicaIds.length ? "short" : ""}>${isr.join(", ") || "-"}</td><td>${log.epoch}</td><td>${canAct.value
          ? ids.filter((id) => id !== log.leader && (!replicaIds.length || replicaIds.includes(id))).map((id) => html`<button onClick=${moveLeader(tp, topicPartition, id)}>broker ${id}<span class="sr"> leads ${tp}</span></button> `)
          : "-"}</td></tr>`;
      })}</tbody></table>
    ${!isLive && html`<p class="hint">A recording does not tell replicas.</p>`}
    <${Streams} members=${now.streams} />
    ${!canAct.value && html`<p class="hint">This is a recorded run: brokers can be stopped in a live cluster, and in a run that waits at a step.</p>`}`;
}

/** The members of streams groups and their tasks, as the coordinators of the groups know them. */
const Streams = ({ members }) => Object.keys(members).length > 0 && html`
  <table class="wide" id="streams"><caption>Members of streams groups</caption><thead><tr><th>group</th><th>member</th><th>epoch</th><th>state</th><th>active</th><th>standby</th><th>warm-up</th><th>to be revoked</th></tr></thead><tbody>
    ${Object.keys(members).sort().map((name) => members[name]).map(({ group, member, epoch, state: status, active, standby, warmup, revoked }) => html`
      <tr><td>${group}</td><td>${member}</td><td>${epoch}</td><td>${status.replaceAll("_", " ")}</td>
        ${[active, standby, warmup, revoked].map((tasks) => html`<td>${tasks.join(", ") || "-"}</td>`)}</tr>`)}</tbody></table>`;

/** Many partitions on one screen: each a box with its number, its leader, and a sign if a replica is not in sync. */
const Boxes = ({ logs, replicas }) => html`<div class="boxes" role="group" aria-label="All partitions">${logs.map(([tp, log]) => {
  const { replicas: replicaIds = [], isr = [] } = replicas.get(tp) ?? {};
  const isShort = isr.length < replicaIds.length;
  return html`<button class=${`box-of hue${log.leader % 5}${isShort ? " short" : ""}`} aria-pressed=${partition.value === tp} onClick=${() => (partition.value = tp)}
    title=${`${tp}: leader broker ${log.leader}${replicaIds.length ? `, in sync ${isr.join(", ")} of ${replicaIds.join(", ")}` : ""}`}><span class="sr">${tp.slice(0, tp.lastIndexOf("-"))}-</span>${tp.slice(tp.lastIndexOf("-") + 1)}<small> b${log.leader}${isShort ? " !" : ""}</small></button>`;
})}</div>`;

/** Partition -> its replicas, as the controller knows them; read again every POLL_MS. */
function useReplicas(isLive) {
  const [replicasByPartition, setReplicas] = useState(new Map());
  useEffect(() => {
    if (!isLive) return undefined;
    const readTopics = () => ask("/topics").then(
      (topics) => setReplicas(new Map(topics.flatMap(({ name, partitions }) => partitions.map((topicPartition) => [`${name}-${topicPartition.partition}`, topicPartition])))),
      () => null); // the stream says what is wrong
    void readTopics();
    const timer = setInterval(readTopics, POLL_MS);
    return () => clearInterval(timer);
  }, [isLive]);
  return isLive ? replicasByPartition : new Map();
}
