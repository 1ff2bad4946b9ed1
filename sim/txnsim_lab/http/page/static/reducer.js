// @ts-check
// The state of a cluster at any event. Line by line what sim/txnsim_lab/trace/state.py does: events carry
// new values, so each kind assigns, and no rule of Kafka is here. A browser test holds the two together.

const UNKNOWN = -1;

/** An empty table. Its keys are names that users give: it has no other, such as `constructor`. */
const table = () => Object.create(TABLE);
const TABLE = Object.freeze({ __proto__: null, [Symbol.toPrimitive]: () => "a table" });

export function newState(level = "full") {
  return {
    at_us: 0, wall_ms: 0, level,
    brokers: table(), logs: table(), transactions: table(), owed: table(), faults: table(), offsets: table(), shares: table(), unserved_shares: table(), streams: table(), unserved_streams: table(),
  };
}

/** One more event, in order. */
export function follow(state, event) {
  state.at_us = event.t;
  const assign = ASSIGN[event.k];
  if (assign) assign(state, event, event.node, event.d ?? {});
}

/** Whether events of a kind change the state. */
export const assigns = (kind) => kind in ASSIGN;

export const nowMs = (state) => state.wall_ms + Math.floor(state.at_us / 1000);

// The clock, brokers and leaders

function input(state, event, node, data) {
  const ahead = data.do === "advance" ? (data.args.ms ?? 0) : 0;
  state.wall_ms = data.at - Math.floor(event.t / 1000) + ahead;
}

function up(state, event, node, data) {
  if (data.role === "broker") state.brokers[node] = "running";
}

function down(state, event, node, data) {
  if (data.role !== "broker") return;
  state.brokers[node] = "down";
  for (const [name, one] of Object.entries(state.shares)) if (one.node === node) move(name, state.shares, state.unserved_shares);
  for (const [name, one] of Object.entries(state.streams)) if (one.node.startsWith(`${node}/`)) move(name, state.streams, state.unserved_streams);
}

function move(name, from, to) {
  to[name] = from[name];
  delete from[name];
}

function role(state, event, node, data) {
  if (data.role === "leader") state.logs[data.tp] = logOf(Number(node.split("/")[1]), data);
  else if (data.role === "replicas") {
    const log = ledLog(state, node, data);
    if (log) log.replicas = data.replicas;
  }
}

function leaderChanged(state, event, node, data) {
  const log = state.logs[data.tp];
  if (log) log.leader = data.leader;
  else state.logs[data.tp] = logOf(data.leader, { epoch: data.epoch });
}

function topicDeleted(state, event, node, data) {
  for (let index = 0; index < data.partitions; index += 1) {
    const name = `${data.topic}-${index}`;
    delete state.logs[name];
    for (const some of [state.shares, state.unserved_shares, state.offsets]) {
      for (const key of Object.keys(some)) if (key.slice(key.lastIndexOf(" ") + 1) === name) delete some[key];
    }
  }
}

function clear(state) {
  for (const name of ["logs", "transactions", "owed", "faults", "brokers", "offsets", "shares", "unserved_shares", "streams", "unserved_streams"]) state[name] = table();
}

/** Where a log ends that a new leader tells of; 0 is left out. */
export const endOfLed = (data) => data.end ?? 0;

function logOf(leader, data) {
  const producers = table();
  for (const one of data.producers ?? []) producers[one.pid] = producerOf(one);
  return {
    leader, epoch: data.epoch, replicas: data.replicas ?? 0,
    start: data.start ?? 0, end: endOfLed(data), hw: data.hw ?? 0, lso: data.lso ?? 0, producers,
  };
}

function producerOf(data) {
  return {
    epoch: data.epoch,
    seq: data.seq ?? UNKNOWN,
    first: data.first ?? UNKNOWN,
    coordinator_epoch: data.coordinator_epoch ?? UNKNOWN,
    timestamp: data.timestamp ?? UNKNOWN,
    i: UNKNOWN,
  };
}

// Logs

/** Node -> number of its broker. There are few nodes and many events. */
const BROKERS = new Map();
function brokerOf(node) {
  let number = BROKERS.get(node);
  if (number === undefined) {
    number = node.startsWith("broker/") ? Number(node.split("/")[1]) : UNKNOWN;
    BROKERS.set(node, number);
  }
  return number;
}

/** The log of an event, where its leader tells of it. */
export function ledLog(state, node, data) {
  const log = state.logs[data.tp];
  return log && log.leader === brokerOf(node) ? log : null;
}

function known(log, data) {
  const producer = (log.producers[data.pid] ??= producerOf(data));
  producer.epoch = data.epoch;
  return producer;
}

function appended(state, event, node, data) {
  const log = ledLog(state, node, data);
  if (!log) return;
  log.end = data.last + 1;
  if (data.pid >= 0) {
    const producer = known(log, data);
    producer.seq = data.seq + data.last - data.base;
    producer.timestamp = nowMs(state);
  }
}

function marked(state, event, node, data) {
  const log = ledLog(state, node, data);
  if (!log) return;
  log.end = data.offset + 1;
  const producer = known(log, data);
  producer.first = UNKNOWN;
  producer.i = UNKNOWN;
  producer.coordinator_epoch = data.coordinator_epoch;
}

function opened(state, event, node, data) {
  const log = ledLog(state, node, data);
  if (!log) return;
  const producer = known(log, data);
  producer.first = data.first;
  producer.i = event.i;
  producer.timestamp = data.timestamp ?? nowMs(state);
  producer.coordinator_epoch = data.coordinator_epoch ?? UNKNOWN;
}

function forgotten(state, event, node, data) {
  const log = ledLog(state, node, data);
  if (log) delete log.producers[data.pid];
}

function beganLater(state, event, node, data) {
  const log = ledLog(state, node, data);
  if (!log) return;
  log.start = data.to;
  log.lso = data.lso ?? log.lso;
  if (data.open) {
    for (const [pid, producer] of Object.entries(log.producers)) {
      if (!data.open.includes(Number(pid))) producer.first = UNKNOWN;
    }
  }
}

const bound = (name) => (state, event, node, data) => {
  const log = ledLog(state, node, data);
  if (log) log[name] = data.to;
};

// Coordinators

/** Name of a transaction -> its transactional id. There are few at a time and many events. */
const IDS = new Map();
const IDS_MAX = 10_000;

/** The transactional id in a transaction's name, which may end without a producer. */
export function idOf(tx) {
  let id = IDS.get(tx);
  if (id !== undefined) return id;
  if (IDS.size === IDS_MAX) IDS.clear();
  id = withoutProducer(tx);
  IDS.set(tx, id);
  return id;
}

/** How a transaction's name ends: producer id and epoch. The id before may have slashes, too. */
const PRODUCER = /^-?[0-9]+:-?[0-9]+$/;

function withoutProducer(tx) {
  const slash = tx.lastIndexOf("/");
  return slash >= 0 && PRODUCER.test(tx.slice(slash + 1)) ? tx.slice(0, slash) : tx;
}

/** Whose a marker is that a coordinator owes, by its key: transactional id, producer id, partition. */
export function owedBy(key) {
  const space = key.lastIndexOf(" ");
  const tx = key.slice(0, space);
  return { id: idOf(tx), pid: Number.parseInt(tx.slice(tx.lastIndexOf("/") + 1), 10), tp: key.slice(space + 1) };
}

function decided(state, event, node, data) {
  const entry = state.transactions[idOf(event.tx)];
  if (entry && "pending" in data) entry.pending = data.pending;
}

function moved(state, event, node, data) {
  const id = idOf(event.tx);
  if (data.state === "Dead") {
    delete state.transactions[id];
    return;
  }
  const entry = (state.transactions[id] ??= {});
  for (const name in data) if (name !== "level") entry[name] = data[name];
  entry.node = node;
  entry.i = event.i;
}

function prepared(state, event, node, data) {
  const entry = state.transactions[idOf(event.tx)];
  if (entry) {
    entry.pending = data.pending;
    entry.partitions = data.partitions;
  }
}

function appendRefused(state, event, node, data) {
  const entry = state.transactions[idOf(event.tx)];
  if (entry && "error" in data) entry.pending = null;
}

const partOf = (node) => node.slice(node.lastIndexOf("/") + 1);

function loaded(state, event, node, data) {
  for (const entry of Object.values(state.transactions)) {
    if (partOf(entry.node) === partOf(node)) {
      entry.node = node;
      entry.pending = null;
      entry.last_epoch = -1;
    }
  }
  for (const { tx, d } of data.entries ?? []) state.transactions[idOf(tx)] ??= { ...d, node, i: event.i };
}

function unloaded(state, event, node) {
  for (const entry of Object.values(state.transactions)) {
    if (entry.node === node) entry.node = `/${partOf(node)}`;
  }
}

// Markers, offsets, faults

function marker(state, event, node, data) {
  const how = event.k.slice("marker.".length);
  if (!("tp" in data)) {
    for (const key of Object.keys(state.owed)) {
      if (key.slice(0, key.lastIndexOf(" ")) === event.tx) delete state.owed[key];
    }
    return;
  }
  const key = `${event.tx} ${data.tp}`;
  if (how === "acked" || how === "cancelled") {
    delete state.owed[key];
    const entry = state.transactions[idOf(event.tx)];
    if (how === "acked" && entry?.partitions.includes(data.tp)) {
      entry.partitions = entry.partitions.filter((tp) => tp !== data.tp);
    }
    return;
  }
  if (how === "owed") state.owed[key] = { committed: data.committed, error: null };
  const entry = state.owed[key];
  if (entry) Object.assign(entry, { how, i: event.i, error: data.error ?? null });
}

function offsetAdded(state, event, node, data) {
  state.offsets[`${data.group} ${data.tp}`] = data.offset;
}

function offsetEnded(state, event, node, data) {
  delete state.offsets[`${data.group} ${data.tp}`];
}

const shareOf = (data) => `${data.group} ${data.tp}`;
const shared = ({ start, next, held, isolation }, node, i) => ({ start, next, held, isolation, node, i });

function shareLoaded(state, event, node, data) {
  if (!("next" in data)) return;
  state.shares[shareOf(data)] = shared(data, node, event.i);
  delete state.unserved_shares[shareOf(data)];
}

function shareMoved(state, event, node, data) {
  if (state.shares[shareOf(data)]?.node === node) state.shares[shareOf(data)] = shared(data, node, event.i);
}

function shareUnloaded(state, event, node, data) {
  if (state.shares[shareOf(data)]?.node === node) move(shareOf(data), state.shares, state.unserved_shares);
}

const memberOf = (data) => `${data.group} ${data.member}`;

function memberMoved(state, event, node, data) {
  state.streams[memberOf(data)] = { ...data, node, i: event.i };
  groupServed(state, data);
}

function memberLeft(state, event, node, data) {
  delete state.streams[memberOf(data)];
  groupServed(state, data);
}

function groupServed(state, { group }) {
  for (const [name, one] of Object.entries(state.unserved_streams)) if (one.group === group) delete state.unserved_streams[name];
}

function streamsUnloaded(state, event, node, data) {
  for (const [name, one] of Object.entries(state.streams)) {
    if (one.group === data.group && one.node === node) move(name, state.streams, state.unserved_streams);
  }
}

const FAULT = ["point", "action", "matched", "struck", "held"];
const faultOf = (data) => Object.fromEntries(FAULT.filter((n) => n in data).map((n) => [n, data[n]]));

function armed(state, event, node, data) {
  state.faults[data.rule] = { matched: 0, struck: 0, held: 0, ...faultOf(data) };
}

function struck(state, event, node, data) {
  if (state.faults[data.rule]) Object.assign(state.faults[data.rule], faultOf(data));
}

function released(state, event, node, data) {
  if (data.disarmed) delete state.faults[data.rule];
  else struck(state, event, node, data);
}

// Beginning in the middle

function snapshot(state, event, node, data) {
  if (data.part === 0) {
    clear(state);
    for (const broker of data.brokers) state.brokers[broker.node] = broker.state;
    for (const fault of data.faults) state.faults[fault.rule] = faultOf(fault);
    state.level = data.trace;
  }
  for (const log of data.partitions) state.logs[log.tp] = logOf(log.leader, log);
  for (const one of data.transactions) {
    state.transactions[idOf(one.tx)] = { ...one.d, node: one.node, i: event.i };
  }
  for (const { tx, tp, committed, how } of data.owed ?? []) state.owed[`${tx} ${tp}`] = { committed, error: null, how, i: event.i };
  for (const { pid, group, tp, offset } of data.positions ?? []) {
    if (pid !== undefined) state.offsets[`${group} ${tp}`] = offset; // a transaction has added it
  }
  for (const one of data.shares ?? []) state.shares[shareOf(one)] = shared(one, one.node, event.i);
  for (const one of data.streams ?? []) memberMoved(state, event, one.node, one);
}

const ASSIGN = {
  __proto__: null,
  "input": input,
  "node.up": up,
  "node.down": down,
  "node.role": role,
  "leader.changed": leaderChanged,
  "topic.deleted": topicDeleted,
  "cluster.reset": clear,
  "log.append": appended,
  "marker.written": marked,
  "pid.open": opened,
  "pid.expire": forgotten,
  "log.hw": bound("hw"),
  "log.lso": bound("lso"),
  "log.start": beganLater,
  "log.truncate": bound("end"),
  "txn.decide": decided,
  "txn.prepare": prepared,
  "txn.append": appendRefused,
  "txn.complete": moved,
  "txn.load": loaded,
  "txn.unload": unloaded,
  "marker.owed": marker,
  "marker.sent": marker,
  "marker.acked": marker,
  "marker.refused": marker,
  "marker.abandoned": marker,
  "marker.cancelled": marker,
  "group.offset_pending": offsetAdded,
  "group.offset_commit": offsetEnded,
  "group.offset_abort": offsetEnded,
  "share.load": shareLoaded,
  "share.acquire": shareMoved,
  "share.release": shareMoved,
  "share.persist": shareMoved,
  "share.start": shareMoved,
  "share.unload": shareUnloaded,
  "streams.member": memberMoved,
  "streams.left": memberLeft,
  "streams.unload": streamsUnloaded,
  "fault.arm": armed,
  "fault.hit": struck,
  "fault.release": released,
  "snapshot": snapshot,
};
