// @ts-check
// Brokers, and partitions with their replicas: stop, kill, start, move a leader.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { askServer, changeCluster, sendInput, postJson } from "../api.js";
import { html } from "../html.js";
import { canChangeCluster, chosenPartition, traceOrigin, shownState } from "../store.js";

/** Up to so many partitions are shown as rows; more are shown as boxes. */
const PARTITION_ROWS_MAX = 10;
const LED_PARTITIONS_MAX = 6;
const TOPICS_POLL_MS = 1000;
const COMMAND_DONE_TEXTS = { stop: "has stopped", kill: "was killed", start: "has started" };
/** Ids of brokers that were told to start and don't run yet. */
const startingBrokerIds = signal([]);

export function Cluster() {
  const { clusterState } = shownState.value;
  const isLive = traceOrigin.value.kind === "live";
  const replicasByPartition = useReplicas(isLive);
  const brokerStates = Object.entries(clusterState.brokers).sort();
  const partitionLogs = Object.entries(clusterState.logs).filter(([tp]) => !tp.startsWith("__")).sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
  const commandBroker = (id, verb) => () => changeCluster(async () => {
    if (verb === "start") startingBrokerIds.value = [...startingBrokerIds.value, id];
    try {
      await (isLive ? postJson(`/brokers/${id}/${verb}`) : sendInput({ cluster: { do: verb, broker: Number(id) } }));
    } finally {
      startingBrokerIds.value = startingBrokerIds.value.filter((brokerId) => brokerId !== id);
    }
  }, `Broker ${id} ${COMMAND_DONE_TEXTS[verb]}.`);
  const moveLeader = (tp, topicPartition, id) => () => changeCluster(
    () => (isLive ? postJson("/leaders", { ...topicPartition, leader: id }) : sendInput({ cluster: { do: "move-leader", partition: tp, to: id } })), `Broker ${id} leads ${tp}.`);
  const brokerIds = brokerStates.map(([node]) => Number(node.split("/")[1]));
  const partitionRows = partitionLogs.length <= PARTITION_ROWS_MAX ? partitionLogs : partitionLogs.filter(([tp]) => tp === chosenPartition.value);
  return html`
    <table class="wide"><caption>Brokers</caption><thead><tr><th>broker</th><th>state</th><th>leads</th><th>do</th></tr></thead><tbody>
      ${brokerStates.map(([node, status]) => {
        const brokerIdText = node.split("/")[1];
        const ledPartitions = partitionLogs.filter(([, log]) => String(log.leader) === brokerIdText).map(([tp]) => tp);
        return html`<tr><td>${node}</td><td>${status === "running" ? "● running" : startingBrokerIds.value.includes(brokerIdText) ? "◌ starting …" : `○ ${status}`}</td>
          <td>${ledPartitions.length > LED_PARTITIONS_MAX ? `${ledPartitions.length} partitions` : ledPartitions.join(", ") || "-"}</td>
          <td>${canChangeCluster.value && status === "running" && html`<button onClick=${commandBroker(brokerIdText, "stop")}>Stop<span class="sr"> ${node}</span></button>
            <button onClick=${commandBroker(brokerIdText, "kill")}>Kill<span class="sr"> ${node}</span></button>`}
            ${canChangeCluster.value && status !== "running" && html`<button disabled=${startingBrokerIds.value.includes(brokerIdText)} onClick=${commandBroker(brokerIdText, "start")}>Start<span class="sr"> ${node}</span></button>`}</td></tr>`;
      })}</tbody></table>
    ${partitionLogs.length > PARTITION_ROWS_MAX && html`<${PartitionBoxes} logs=${partitionLogs} replicas=${replicasByPartition} />`}
    <table class="wide"><caption>Partitions</caption><thead><tr><th>partition</th><th>leader</th><th>replicas</th><th>in sync</th><th>epoch</th><th>move the leader to</th></tr></thead><tbody>
      ${partitionRows.length === 0 && html`<tr><td colspan="6">${partitionLogs.length ? "choose one above" : "none yet: they come with the first topic"}</td></tr>`}
      ${partitionRows.map(([tp, log]) => {
        const dashIndex = tp.lastIndexOf("-");
        const topicPartition = { topic: tp.slice(0, dashIndex), partition: Number(tp.slice(dashIndex + 1)) };
        const { replicas: replicaIds = [], isr = [] } = replicasByPartition.get(tp) ?? {};
        return html`<tr><td>${tp}</td><td>broker ${log.leader}</td><td>${replicaIds.join(", ") || "-"}</td><td class=${isr.length < replicaIds.length ? "short" : ""}>${isr.join(", ") || "-"}</td><td>${log.epoch}</td><td>${canChangeCluster.value
          ? brokerIds.filter((id) => id !== log.leader && (!replicaIds.length || replicaIds.includes(id))).map((id) => html`<button onClick=${moveLeader(tp, topicPartition, id)}>broker ${id}<span class="sr"> leads ${tp}</span></button> `)
          : "-"}</td></tr>`;
      })}</tbody></table>
    ${!isLive && html`<p class="hint">A recording does not tell replicas.</p>`}
    <${StreamsMembers} members=${clusterState.streams} />
    ${!canChangeCluster.value && html`<p class="hint">This is a recorded run: brokers can be stopped in a live cluster, and in a run that waits at a step.</p>`}`;
}

/** The members of streams groups and their tasks, as the coordinators of the groups know them. */
export const StreamsMembers = ({ members }) => Object.keys(members).length > 0 && html`
  <table class="wide" id="streams"><caption>Members of streams groups</caption><thead><tr><th>group</th><th>member</th><th>epoch</th><th>state</th><th>active</th><th>standby</th><th>warm-up</th><th>to be revoked</th></tr></thead><tbody>
    ${Object.keys(members).sort().map((name) => members[name]).map(({ group, member, epoch, state: status, active, standby, warmup, revoked }) => html`
      <tr><td>${group}</td><td>${member}</td><td>${epoch}</td><td>${status.replaceAll("_", " ")}</td>
        ${[active, standby, warmup, revoked].map((tasks) => html`<td>${tasks.join(", ") || "-"}</td>`)}</tr>`)}</tbody></table>`;

/** Many partitions on one screen: each a box with its number, its leader, and a sign if a replica is not in sync. */
const PartitionBoxes = ({ logs, replicas }) => html`<div class="boxes" role="group" aria-label="All partitions">${logs.map(([tp, log]) => {
  const { replicas: replicaIds = [], isr = [] } = replicas.get(tp) ?? {};
  const isUnderReplicated = isr.length < replicaIds.length;
  return html`<button class=${`box-of hue${log.leader % 5}${isUnderReplicated ? " short" : ""}`} aria-pressed=${chosenPartition.value === tp} onClick=${() => (chosenPartition.value = tp)}
    title=${`${tp}: leader broker ${log.leader}${replicaIds.length ? `, in sync ${isr.join(", ")} of ${replicaIds.join(", ")}` : ""}`}><span class="sr">${tp.slice(0, tp.lastIndexOf("-"))}-</span>${tp.slice(tp.lastIndexOf("-") + 1)}<small> b${log.leader}${isUnderReplicated ? " !" : ""}</small></button>`;
})}</div>`;

/** Partition -> its replicas, as the controller knows them; read again every TOPICS_POLL_MS. */
function useReplicas(isLive) {
  const [replicasByPartition, setReplicas] = useState(new Map());
  useEffect(() => {
    if (!isLive) return undefined;
    const readTopics = () => askServer("/topics").then(
      (topics) => setReplicas(new Map(topics.flatMap(({ name, partitions }) => partitions.map((topicPartition) => [`${name}-${topicPartition.partition}`, topicPartition])))),
      () => null); // the stream says what is wrong
    void readTopics();
    const pollTimer = setInterval(readTopics, TOPICS_POLL_MS);
    return () => clearInterval(pollTimer);
  }, [isLive]);
  return isLive ? replicasByPartition : new Map();
}
