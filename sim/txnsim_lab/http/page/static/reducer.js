// @ts-check
// The state of a cluster at any event. Line by line what sim/txnsim_lab/trace/state.py does: events carry
// new values, so each kind assigns, and no rule of Kafka is here. A browser test holds the two together.

const UNKNOWN = -1;

/** An empty table. Its keys are names that users give: it has no other, such as `constructor`. */
const newTable = () => Object.create(TABLE_PROTOTYPE);
const TABLE_PROTOTYPE = Object.freeze({ __proto__: null, [Symbol.toPrimitive]: () => "a table" });

export function newState(level = "full") {
  return {
    at_us: 0, wall_ms: 0, level,
    brokers: newTable(), logs: newTable(), transactions: newTable(), owed: newTable(), faults: newTable(), offsets: newTable(), shares: newTable(), unserved_shares: newTable(), streams: newTable(), unserved_streams: newTable(),
  };
}

/** Apply the next event. */
export function applyEvent(state, event) {
  state.at_us = event.t;
  const assign = ASSIGNERS[event.k];
  if (assign) assign(state, event, event.node, event.d ?? {});
}

/** Whether events of a kind change the state. */
export const changesState = (kind) => kind in ASSIGNERS;

export const nowMs = (state) => state.wall_ms + Math.floor(state.at_us / 1000);

// The clock, brokers and leaders

function onInput(state, event, node, payload) {
  const aheadMs = payload.do === "advance" ? (payload.args.ms ?? 0) : 0;
  state.wall_ms = payload.at - Math.floor(event.t / 1000) + aheadMs;
}

function onBrokerUp(state, event, node, payload) {
  if (payload.role === "broker") state.brokers[node] = "running";
}

function onBrokerDown(state, event, node, payload) {
  if (payload.role !== "broker") return;
  state.brokers[node] = "down";
  for (const [key, share] of Object.entries(state.shares)) if (share.node === node) moveEntry(key, state.shares, state.unserved_shares);
  for (const [key, member] of Object.entries(state.streams)) if (member.node.startsWith(`${node}/`)) moveEntry(key, state.streams, state.unserved_streams);
}

function moveEntry(key, fromTable, toTable) {
  toTable[key] = fromTable[key];
  delete fromTable[key];
}

function onRoleChange(state, event, node, payload) {
  if (payload.role === "leader") state.logs[payload.tp] = newLog(Number(node.split("/")[1]), payload);
  else if (payload.role === "replicas") {
    const log = leaderLogOf(state, node, payload);
    if (log) log.replicas = payload.replicas;
  }
}

function onLeaderChange(state, event, node, payload) {
  const log = state.logs[payload.tp];
  if (log) log.leader = payload.leader;
  else state.logs[payload.tp] = newLog(payload.leader, { epoch: payload.epoch });
}

function onTopicDeletion(state, event, node, payload) {
  for (let index = 0; index < payload.partitions; index += 1) {
    const tp = `${payload.topic}-${index}`;
    delete state.logs[tp];
    for (const table of [state.shares, state.unserved_shares, state.offsets]) {
      for (const key of Object.keys(table)) if (key.slice(key.lastIndexOf(" ") + 1) === tp) delete table[key];
    }
  }
}

function clearTables(state) {
  for (const tableName of ["logs", "transactions", "owed", "faults", "brokers", "offsets", "shares", "unserved_shares", "streams", "unserved_streams"]) state[tableName] = newTable();
}

/** Where the log of a new leader ends; the event leaves 0 out. */
export const endAtElection = (payload) => payload.end ?? 0;

function newLog(leader, payload) {
  const producers = newTable();
  for (const producer of payload.producers ?? []) producers[producer.pid] = newProducer(producer);
  return {
    leader, epoch: payload.epoch, replicas: payload.replicas ?? 0,
    start: payload.start ?? 0, end: endAtElection(payload), hw: payload.hw ?? 0, lso: payload.lso ?? 0, producers,
  };
}

function newProducer(payload) {
  return {
    epoch: payload.epoch,
    seq: payload.seq ?? UNKNOWN,
    first: payload.first ?? UNKNOWN,
    coordinator_epoch: payload.coordinator_epoch ?? UNKNOWN,
    timestamp: payload.timestamp ?? UNKNOWN,
    i: UNKNOWN,
  };
}

// Logs

/** Node -> number of its broker. There are few nodes and many events. */
const BROKER_NUMBER_BY_NODE = new Map();
function brokerNumberOf(node) {
  let brokerNumber = BROKER_NUMBER_BY_NODE.get(node);
  if (brokerNumber === undefined) {
    brokerNumber = node.startsWith("broker/") ? Number(node.split("/")[1]) : UNKNOWN;
    BROKER_NUMBER_BY_NODE.set(node, brokerNumber);
  }
  return brokerNumber;
}

/** The log of an event if its node is the leader; null otherwise. */
export function leaderLogOf(state, node, payload) {
  const log = state.logs[payload.tp];
  return log && log.leader === brokerNumberOf(node) ? log : null;
}

function producerOf(log, payload) {
  const producer = (log.producers[payload.pid] ??= newProducer(payload));
  producer.epoch = payload.epoch;
  return producer;
}

function onAppend(state, event, node, payload) {
  const log = leaderLogOf(state, node, payload);
  if (!log) return;
  log.end = payload.last + 1;
  if (payload.pid >= 0) {
    const producer = producerOf(log, payload);
    producer.seq = payload.seq + payload.last - payload.base;
    producer.timestamp = nowMs(state);
  }
}

function onMarkerWritten(state, event, node, payload) {
  const log = leaderLogOf(state, node, payload);
  if (!log) return;
  log.end = payload.offset + 1;
  const producer = producerOf(log, payload);
  producer.first = UNKNOWN;
  producer.i = UNKNOWN;
  producer.coordinator_epoch = payload.coordinator_epoch;
}

function onTransactionBegin(state, event, node, payload) {
  const log = leaderLogOf(state, node, payload);
  if (!log) return;
  const producer = producerOf(log, payload);
  producer.first = payload.first;
  producer.i = event.i;
  producer.timestamp = payload.timestamp ?? nowMs(state);
  producer.coordinator_epoch = payload.coordinator_epoch ?? UNKNOWN;
}

function onProducerExpiry(state, event, node, payload) {
  const log = leaderLogOf(state, node, payload);
  if (log) delete log.producers[payload.pid];
}

function onLogStartMove(state, event, node, payload) {
  const log = leaderLogOf(state, node, payload);
  if (!log) return;
  log.start = payload.to;
  log.lso = payload.lso ?? log.lso;
  if (payload.open) {
    for (const [pid, producer] of Object.entries(log.producers)) {
      if (!payload.open.includes(Number(pid))) producer.first = UNKNOWN;
    }
  }
}

const boundSetter = (fieldName) => (state, event, node, payload) => {
  const log = leaderLogOf(state, node, payload);
  if (log) log[fieldName] = payload.to;
};

// Coordinators

/** Name of a transaction -> its transactional id. There are few at a time and many events. */
const ID_BY_TRANSACTION_NAME = new Map();
const TRANSACTION_NAMES_MAX = 10_000;

/** The transactional id in a transaction's name, which may end without a producer. */
export function transactionalIdOf(transactionName) {
  let id = ID_BY_TRANSACTION_NAME.get(transactionName);
  if (id !== undefined) return id;
  if (ID_BY_TRANSACTION_NAME.size === TRANSACTION_NAMES_MAX) ID_BY_TRANSACTION_NAME.clear();
  id = withoutProducerSuffix(transactionName);
  ID_BY_TRANSACTION_NAME.set(transactionName, id);
  return id;
}

/** How a transaction's name ends: producer id and epoch. The id before may have slashes, too. */
const PRODUCER_SUFFIX = /^-?[0-9]+:-?[0-9]+$/;

function withoutProducerSuffix(transactionName) {
  const slashIndex = transactionName.lastIndexOf("/");
  return slashIndex >= 0 && PRODUCER_SUFFIX.test(transactionName.slice(slashIndex + 1)) ? transactionName.slice(0, slashIndex) : transactionName;
}

/** The transactional id, producer id and partition in a key of `owed`. */
export function parseOwedKey(key) {
  const separatorIndex = key.lastIndexOf(" ");
  const transactionName = key.slice(0, separatorIndex);
  return { id: transactionalIdOf(transactionName), pid: Number.parseInt(transactionName.slice(transactionName.lastIndexOf("/") + 1), 10), tp: key.slice(separatorIndex + 1) };
}

function onDecision(state, event, node, payload) {
  const coordinatorEntry = state.transactions[transactionalIdOf(event.tx)];
  if (coordinatorEntry && "pending" in payload) coordinatorEntry.pending = payload.pending;
}

function onTransition(state, event, node, payload) {
  const id = transactionalIdOf(event.tx);
  if (payload.state === "Dead") {
    delete state.transactions[id];
    return;
  }
  const coordinatorEntry = (state.transactions[id] ??= {});
  for (const fieldName in payload) if (fieldName !== "level") coordinatorEntry[fieldName] = payload[fieldName];
  coordinatorEntry.node = node;
  coordinatorEntry.i = event.i;
}

function onPrepare(state, event, node, payload) {
  const coordinatorEntry = state.transactions[transactionalIdOf(event.tx)];
  if (coordinatorEntry) {
    coordinatorEntry.pending = payload.pending;
    coordinatorEntry.partitions = payload.partitions;
  }
}

function onLogRefusal(state, event, node, payload) {
  const coordinatorEntry = state.transactions[transactionalIdOf(event.tx)];
  if (coordinatorEntry && "error" in payload) coordinatorEntry.pending = null;
}

const logPartitionOf = (node) => node.slice(node.lastIndexOf("/") + 1);

function onCoordinatorLoad(state, event, node, payload) {
  for (const coordinatorEntry of Object.values(state.transactions)) {
    if (logPartitionOf(coordinatorEntry.node) === logPartitionOf(node)) {
      coordinatorEntry.node = node;
      coordinatorEntry.pending = null;
      coordinatorEntry.last_epoch = -1;
    }
  }
  for (const { tx, d } of payload.entries ?? []) state.transactions[transactionalIdOf(tx)] ??= { ...d, node, i: event.i };
}

function onCoordinatorUnload(state, event, node) {
  for (const coordinatorEntry of Object.values(state.transactions)) {
    if (coordinatorEntry.node === node) coordinatorEntry.node = `/${logPartitionOf(node)}`;
  }
}

// Markers, offsets, faults

function onMarkerEvent(state, event, node, payload) {
  const step = event.k.slice("marker.".length);
  if (!("tp" in payload)) {
    for (const key of Object.keys(state.owed)) {
      if (key.slice(0, key.lastIndexOf(" ")) === event.tx) delete state.owed[key];
    }
    return;
  }
  const key = `${event.tx} ${payload.tp}`;
  if (step === "acked" || step === "cancelled") {
    delete state.owed[key];
    const coordinatorEntry = state.transactions[transactionalIdOf(event.tx)];
    if (step === "acked" && coordinatorEntry?.partitions.includes(payload.tp)) {
      coordinatorEntry.partitions = coordinatorEntry.partitions.filter((tp) => tp !== payload.tp);
    }
    return;
  }
  if (step === "owed") state.owed[key] = { committed: payload.committed, error: null };
  const owedMarker = state.owed[key];
  if (owedMarker) Object.assign(owedMarker, { how: step, i: event.i, error: payload.error ?? null });
}

function onOffsetAdd(state, event, node, payload) {
  state.offsets[`${payload.group} ${payload.tp}`] = payload.offset;
}

function onOffsetEnd(state, event, node, payload) {
  delete state.offsets[`${payload.group} ${payload.tp}`];
}

const shareKeyOf = (payload) => `${payload.group} ${payload.tp}`;
const newShare = ({ start, next, held, isolation }, node, position) => ({ start, next, held, isolation, node, i: position });

function onShareLoad(state, event, node, payload) {
  if (!("next" in payload)) return;
  state.shares[shareKeyOf(payload)] = newShare(payload, node, event.i);
  delete state.unserved_shares[shareKeyOf(payload)];
}

function onShareMove(state, event, node, payload) {
  if (state.shares[shareKeyOf(payload)]?.node === node) state.shares[shareKeyOf(payload)] = newShare(payload, node, event.i);
}

function onShareUnload(state, event, node, payload) {
  if (state.shares[shareKeyOf(payload)]?.node === node) moveEntry(shareKeyOf(payload), state.shares, state.unserved_shares);
}

const memberKeyOf = (payload) => `${payload.group} ${payload.member}`;

function onMemberMove(state, event, node, payload) {
  state.streams[memberKeyOf(payload)] = { ...payload, node, i: event.i };
  dropUnservedMembers(state, payload);
}

function onMemberLeave(state, event, node, payload) {
  delete state.streams[memberKeyOf(payload)];
  dropUnservedMembers(state, payload);
}

function dropUnservedMembers(state, { group }) {
  for (const [key, member] of Object.entries(state.unserved_streams)) if (member.group === group) delete state.unserved_streams[key];
}

function onStreamsUnload(state, event, node, payload) {
  for (const [key, member] of Object.entries(state.streams)) {
    if (member.group === payload.group && member.node === node) moveEntry(key, state.streams, state.unserved_streams);
  }
}

const FAULT_FIELDS = ["point", "action", "matched", "struck", "held"];
const faultFieldsOf = (payload) => Object.fromEntries(FAULT_FIELDS.filter((fieldName) => fieldName in payload).map((fieldName) => [fieldName, payload[fieldName]]));

function onFaultArm(state, event, node, payload) {
  state.faults[payload.rule] = { matched: 0, struck: 0, held: 0, ...faultFieldsOf(payload) };
}

function onFaultStrike(state, event, node, payload) {
  if (state.faults[payload.rule]) Object.assign(state.faults[payload.rule], faultFieldsOf(payload));
}

function onFaultRelease(state, event, node, payload) {
  if (payload.disarmed) delete state.faults[payload.rule];
  else onFaultStrike(state, event, node, payload);
}

// Beginning in the middle

function onSnapshot(state, event, node, payload) {
  if (payload.part === 0) {
    clearTables(state);
    for (const broker of payload.brokers) state.brokers[broker.node] = broker.state;
    for (const fault of payload.faults) state.faults[fault.rule] = faultFieldsOf(fault);
    state.level = payload.trace;
  }
  for (const log of payload.partitions) state.logs[log.tp] = newLog(log.leader, log);
  for (const { tx, d, node: coordinatorNode } of payload.transactions) {
    state.transactions[transactionalIdOf(tx)] = { ...d, node: coordinatorNode, i: event.i };
  }
  for (const { tx, tp, committed, how } of payload.owed ?? []) state.owed[`${tx} ${tp}`] = { committed, error: null, how, i: event.i };
  for (const { pid, group, tp, offset } of payload.positions ?? []) {
    if (pid !== undefined) state.offsets[`${group} ${tp}`] = offset; // a transaction has added it
  }
  for (const share of payload.shares ?? []) state.shares[shareKeyOf(share)] = newShare(share, share.node, event.i);
  for (const member of payload.streams ?? []) onMemberMove(state, event, member.node, member);
}

const ASSIGNERS = {
  __proto__: null,
  "input": onInput,
  "node.up": onBrokerUp,
  "node.down": onBrokerDown,
  "node.role": onRoleChange,
  "leader.changed": onLeaderChange,
  "topic.deleted": onTopicDeletion,
  "cluster.reset": clearTables,
  "log.append": onAppend,
  "marker.written": onMarkerWritten,
  "pid.open": onTransactionBegin,
  "pid.expire": onProducerExpiry,
  "log.hw": boundSetter("hw"),
  "log.lso": boundSetter("lso"),
  "log.start": onLogStartMove,
  "log.truncate": boundSetter("end"),
  "txn.decide": onDecision,
  "txn.prepare": onPrepare,
  "txn.append": onLogRefusal,
  "txn.complete": onTransition,
  "txn.load": onCoordinatorLoad,
  "txn.unload": onCoordinatorUnload,
  "marker.owed": onMarkerEvent,
  "marker.sent": onMarkerEvent,
  "marker.acked": onMarkerEvent,
  "marker.refused": onMarkerEvent,
  "marker.abandoned": onMarkerEvent,
  "marker.cancelled": onMarkerEvent,
  "group.offset_pending": onOffsetAdd,
  "group.offset_commit": onOffsetEnd,
  "group.offset_abort": onOffsetEnd,
  "share.load": onShareLoad,
  "share.acquire": onShareMove,
  "share.release": onShareMove,
  "share.persist": onShareMove,
  "share.start": onShareMove,
  "share.unload": onShareUnload,
  "streams.member": onMemberMove,
  "streams.left": onMemberLeave,
  "streams.unload": onStreamsUnload,
  "fault.arm": onFaultArm,
  "fault.hit": onFaultStrike,
  "fault.release": onFaultRelease,
  "snapshot": onSnapshot,
};
