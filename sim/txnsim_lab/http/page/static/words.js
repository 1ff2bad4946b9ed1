// @ts-check
// The terms on the screen, explained in Kafka's sense, and an event as a line of text. A test reads the screen and
// looks for terms that are missing here.

import { ANOMALY_MEANINGS } from "./meanings.js";

/** What the states of a transactional id mean. */
const STATE_MEANINGS = {
  Empty: "nothing is open", Ongoing: "a transaction is open", PrepareCommit: "commit is decided, markers are owed", PrepareAbort: "abort is decided, markers are owed",
  CompleteCommit: "committed, all markers are written", CompleteAbort: "aborted, all markers are written", PrepareEpochFence: "a producer is being fenced", Dead: "the id is being forgotten",
};

export const WORD_MEANINGS = {
  "event": "One line of the trace: when, where, what, and the event that caused it. The panel on the right shows one.",
  "cluster": "Brokers that serve clients together; here all of them live in one process.",
  "picture": "The first view: application, coordinator and partition on one axis of time, the story's sentence below, facts on the right. The bar above every view has the verdict on the whole cluster.",
  "timeline": "All messages and events in their order: one line per client, broker, coordinator and partition.",
  "withheld": "Written, and not given to readers: a transaction before it is open.",
  "discarded": "Of an aborted transaction: readers go past it and never get it.",
  "application": "The program whose producer it is. Of a transaction it knows what it was answered; an answer that was held or lost has told it nothing.",
  "app/1, app/2": "The transactions of the transactional id app, in the order in which its coordinator has begun them. Each has a colour and a pattern.",
  "log": "The records of a partition, in the order of their offsets.",
  "producer": "A client that writes. A transactional one has a transactional id, a producer id (pid) and an epoch.",
  "pid": "The producer id, in events and in the coordinator's entry.",
  "batch": "Records that a producer has sent together. A box of the tape is a batch: its offsets, what became of it, its producer.",
  "partition": "A part of a topic, with a log of its own. Its records have offsets from 0 on.",
  "readers": "Consumers with isolation.level=read_committed, and share groups that are set so: they get no record of a transaction that is open. The table says whether they move, wait for one that is open, or stand at an offset that they do not pass.",
  "producers and groups, consumers and groups": "Who writes, and who reads: consumers that wait now, share groups, streams groups, and groups with a position in an open transaction.",
  "where it stands": "Of a reader: the offset that it does not pass, what a share group holds, or a position that its transaction has yet to commit.",
  "last stable offset": "LSO. The first offset of the oldest transaction that is still open on the partition, or the high watermark where none is open. read_committed consumers read up to here.",
  "high watermark": "HW. The first offset that is not yet on all replicas that are in sync. No consumer reads beyond it.",
  "log end": "LEO. The offset that the next record gets.",
  "log start": "The first offset that is still kept.",
  "epoch": "Of a producer: a number that rises when its transactional id is used anew. Requests with a lower one are fenced.",
  "producer id": "A number that the coordinator gives to a producer. Batches carry it, not the transactional id.",
  "transactional id": "The name that an application gives its producer. It stays the same over restarts.",
  "coordinator": "The broker that keeps the state of a transactional id, in a partition of __transaction_state.",
  "marker": "The record that ends a transaction on a partition: COMMIT or ABORT. Each leader writes it when the coordinator asks.",
  "open transaction": "A producer has written transactional records to a partition, and no marker has followed.",
  "hanging transaction": "An open transaction on a partition that no marker of its coordinator will ever end. Readers stand still until an operator ends it.",
  "verification": "A leader asks the coordinator whether a transaction may write to it (KIP-890). It prevents most hanging transactions.",
  "leader": "The broker that takes writes for a partition.",
  "fault rule": "Something that txnsim does on purpose: hold, drop, delay or answer with an error, at a point that messages cross.",
  "cause": "The event because of which another one happened. Walk the causes back to find where a value comes from.",
  "brief": "How much is recorded: what matters, without polls of brokers and high watermarks. full records everything.",
  "state": `Of a transactional id, at its coordinator: ${Object.entries(STATE_MEANINGS).map(([name, meaning]) => `${name} (${meaning})`).join(", ")}. Of a broker: running or down.`,
  "state at the coordinator": "What the coordinator knows of the transactional id of this producer: see state.",
  "pending": "The state that a transactional id is on its way to: the record of the move is being appended.",
  "entry": "All that the coordinator knows of a transactional id.",
  "timeout_ms": "After so many milliseconds the coordinator aborts an open transaction by itself.",
  "last_epoch": "The epoch before this one, to know again a request that is repeated.",
  "version": "transaction.version of the transaction: 2 raises the epoch with every transaction (KIP-890).",
  "markers that are owed": "Partitions of a decided transaction whose leader has not yet confirmed the marker: owed, sent, written or refused.",
  "decided": "Commit or abort stands at the coordinator, and the marker is not yet written. To abort such a transaction by hand can tear it.",
  "alive": "An open transaction that its producer can still end.",
  "last sequence": "Each batch of a producer has a sequence number, so that a leader knows what it has already.",
  "open since": "The first offset of the producer's open transaction on the partition, and the event that opened it.",
  "lists it": "Whether the coordinator counts the partition to the transaction. Only then will it send a marker there.",
  "replicas": "The brokers that keep a copy of a partition.",
  "in sync": "ISR. The replicas that have all that is committed; one of them becomes the leader if the leader is lost.",
  "point": "A named place that requests and steps pass, where a fault rule can strike: client.request, peer.request, …",
  "action": "What a fault rule does: hold, drop, delay, error, …",
  "matched, struck, held": "How many crossings a fault rule has met, to how many it did something, how many it keeps waiting now.",
  "release": "Let go what a fault rule holds. To disarm a rule is to remove it.",
  "stop and kill": "A stopped broker hands over its leaders first; a killed one is gone at once.",
  "leads": "The partitions whose leader the broker is.",
  "trace": "What was recorded: events in order, each with its cause. All views show the same trace.",
  "snapshot": "The state of the cluster where a recording begins in the middle.",
  "lane": "One line per role: a client, a broker, a coordinator's partition, a partition's log.",
  "judges": "Functions that read what clients saw and say what went wrong, each kind by a name of its own.",
  "violation": "What judges found: something that transactions promise and that was not kept.",
  "verdict": "Of a cluster: healthy, open, waits, hangs, wrong data, no leader, or unknown, as txnsim txns says it too. Of a run: healthy, or the violations that the judges found.",
  "anomaly": "A way in which transactions go wrong. The view of stories has the documented ones.",
  "runs and their verdicts": "A scenario's variants, by generation of the protocol, and what the judges say of each. before and fixed: without and with Kafka's correction.",
  "without verification, with verification": "How a cluster was before Kafka 3.6, and since: a leader asks the coordinator before it takes the first record of a transaction (KIP-890, part 1).",
  "transactions v2, strict markers": "transaction.version 2 (KIP-890, part 2): the epoch rises with every transaction; and the same with markers that end only the transaction that they were sent for (KIP-1228).",
  "armed": "The take in which faults strike; disarmed: the same story without them.",
  "seed": "The number that all chance of a run comes from.",
  "live": "The newest event, also when more come. A recorded run has a newest event, too.",
  "lesson": "A story with questions and a goal: you say what will happen before you see it.",
  ...ANOMALY_MEANINGS,
  "scenario": "A story about transactions, played in virtual time. The same seed gives the same run, event by event.",
};

export const stateWithMeaning = (name) => (name in STATE_MEANINGS ? `${name}: ${STATE_MEANINGS[name]}` : name);

const MILLISECOND_FORMAT = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const millisecondsText = (event) => `${MILLISECOND_FORMAT.format(event.t / 1000)} ms`;

function fieldText(field) {
  if (field === true) return "yes";
  if (field === false) return "no";
  if (field === null) return "-";
  if (Array.isArray(field) && field.every((item) => typeof item !== "object")) return field.join(",") || "-";
  return typeof field === "object" ? JSON.stringify(field) : String(field);
}

export const payloadText = (event) =>
  Object.entries(event.d ?? {}).map(([name, field]) => `${name}=${fieldText(field)}`).join(" ");

export const eventLine = (event) => `#${event.i} ${event.node} ${event.k} ${event.tx ?? ""} ${payloadText(event)}`;

/** Whether an event tells of an error; answers without an error say NONE. */
export const hasFailed = (event) => Boolean(event.d?.error) && event.d.error !== "NONE";

/** Whether all words of a search occur in an event's line; with kind:, tx: or node:, in that column. */
export function matchesSearch(event, text) {
  return text.trim().toLowerCase().split(/\s+/).every((term) => {
    const [, columnName, columnTerm] = /^(kind|tx|node):(.*)$/.exec(term) ?? [];
    const searchedText = { kind: event.k, tx: event.tx ?? "", node: event.node }[columnName] ?? eventLine(event);
    return searchedText.toLowerCase().includes(columnTerm ?? term);
  });
}

/** Generations of the transaction protocol, by the labels that runs of stories have: name and meaning. */
export const GENERATIONS = {
  "V-": ["without verification", "as before Kafka 3.6: a leader takes records without asking whether their transaction is open"],
  "V+": ["with verification", "KIP-890, part 1: the leader asks the coordinator before a transaction's first record"],
  TV2: ["transactions v2", "transaction.version 2 (KIP-890, part 2): each transaction has an epoch of its own"],
  "TV2+": ["strict markers", "transactions v2, and a marker ends only the transaction that it was sent for (KIP-1228)"],
};
const VARIANT_NAMES = { before: "before the correction", fixed: "corrected" };
/** The name of a run by its label: a generation, and what is different in it. */
export function runName(label) {
  const [generation, variant] = label.split("/");
  return [GENERATIONS[generation]?.[0] ?? generation, ...(variant ? [VARIANT_NAMES[variant] ?? `Kafka ${variant}`] : [])].join(", ");
}
export const TAKE_NAMES = { armed: "with the fault", disarmed: "without the fault", control: "a healthy run beside it" };
