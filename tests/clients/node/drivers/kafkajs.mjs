// KafkaJS: consumers are pushed batches, always as members of a group.

import { assert, PATIENCE_MS, until, withPatience } from '../lab.mjs'
import { library } from '../modules.mjs'
import { PushedMember } from './pushed-member.mjs'

const { default: kafkajs } = await library('kafkajs')
const { CompressionTypes, Kafka, logLevel } = kafkajs

const MAX_WAIT_MS = 100
const MECHANISMS = {
  'SCRAM-SHA-256': 'scram-sha-256',
  'SCRAM-SHA-512': 'scram-sha-512',
  PLAIN: 'plain',
  OAUTHBEARER: 'oauthbearer'
}

export class Driver {
  // Others need codecs of other packages.
  codecs = ['none', 'gzip']
  canRepeatHeaders = true
  canTombstones = true
  canBeEmpty = true
  mechanisms = Object.keys(MECHANISMS)

  constructor (bootstrap, { tls, sasl }, log) {
    this.kafka = new Kafka({
      brokers: bootstrap,
      ssl: tls,
      sasl: sasl && saslOptions(sasl),
      // Soon again: metadata and coordinators of what is new are asked for until they are there.
      retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 20 },
      logLevel: logLevel.INFO,
      logCreator: () => ({ namespace, log: { message, error } }) => {
        log(`${namespace} ${message} ${error ?? ''}`)
      }
    })
  }

  async close () {
    await this.admin?.disconnect()
  }

  // The cluster

  async #connectedAdmin () {
    if (!this.admin) {
      const admin = this.kafka.admin()
      await admin.connect()
      this.admin = admin
    }
    return this.admin
  }

  async brokers () {
    return (await (await this.#connectedAdmin()).describeCluster()).brokers.length
  }

  async createTopic (topic, numPartitions) {
    const replicationFactor = Math.min(3, await this.brokers())
    const topics = [{ topic, numPartitions, replicationFactor }]
    const created = await this.admin.createTopics({ topics, waitForLeaders: false })
    assert(created, `${topic} was there already`)
    // What the library would wait for, but it gives up where a broker does not know the topic yet.
    await until(`leaders of ${topic}`, async () => {
      const leaders = await this.leaders(topic).catch(error => {
        if (error.type !== 'UNKNOWN_TOPIC_OR_PARTITION') throw error
      })
      return leaders?.length === numPartitions && leaders.every(leader => leader >= 0)
    })
  }

  async leaders (topic) {
    const admin = await this.#connectedAdmin()
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    const byPartition = topics[0].partitions.sort((a, b) => a.partitionId - b.partitionId)
    return byPartition.map(({ leader }) => leader)
  }

  async positions (groupId, topic, partitions) {
    const found = await (await this.#connectedAdmin()).fetchOffsets({ groupId, topics: [topic] })
    const offsets = new Map(found[0].partitions.map(({ partition, offset }) => [partition, offset]))
    return [...Array(partitions).keys()].map(partition => Number(offsets.get(partition) ?? -1))
  }

  // Producers

  async producer ({ transactionalId, timeoutMs, codec = 'none', idempotent = false }) {
    const producer = this.kafka.producer({
      transactionalId,
      transactionTimeout: timeoutMs,
      idempotent: idempotent || transactionalId !== undefined,
      createPartitioner: () => ({ message: { partition } }) => partition
    })
    await producer.connect()
    return new Producer(producer, codec)
  }

  // Consumers

  async member (groupId, topic) {
    const consumer = this.kafka.consumer({ groupId, ...QUICK })
    const member = new PushedMember(groupId, topic)
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      member.assigned(payload.memberAssignment[topic] ?? [])
    })
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    // Not waited for: it goes on when the member has joined, and others may have to let it in.
    const running = consumer.run({
      autoCommit: false,
      eachBatch: ({ batch, heartbeat }) => {
        const records = batch.messages.map(message => recordOf(batch.partition, message))
        return member.give(records, heartbeat, isRebalancing)
      }
    })
    running.catch(error => member.fail(error))
    // Before its first join a coordinator may be loading still; the library starts anew by itself.
    consumer.on(consumer.events.CRASH, ({ payload: { restart, error } }) => {
      if (!restart || member.hasJoined) member.fail(error)
    })
    member.leave = () => consumer.disconnect()
    return member
  }

  /** Everything that this isolation level shows: until each leader has had nothing more to give. */
  async read (topic, { committed }) {
    const leaders = await this.leaders(topic)
    const groupId = `${topic}-reader-${process.pid}-${Readers.next++}`
    const consumer = this.kafka.consumer({ groupId, readUncommitted: !committed, ...QUICK })
    const records = []
    const quiet = quietness(consumer, leaders, () => records.splice(0))
    await consumer.connect()
    try {
      await consumer.subscribe({ topic, fromBeginning: true })
      await consumer.run({
        autoCommit: false,
        eachBatch: async ({ batch }) => {
          records.push(...batch.messages.map(message => recordOf(batch.partition, message)))
        }
      })
      await withPatience(quiet, `the end of ${topic}`)
    } finally {
      await consumer.disconnect()
    }
    return records.sort((a, b) => a.partition - b.partition || a.offset - b.offset)
  }

  // What errors mean

  isFenced (error) {
    return ['INVALID_PRODUCER_EPOCH', 'PRODUCER_FENCED'].includes(error.type)
  }

  isTimedOut (error) {
    // The abort has raised the epoch (KIP-360).
    return ['INVALID_PRODUCER_EPOCH', 'PRODUCER_FENCED'].includes(error.type)
  }

  isStaleMember () {
    // sendOffsets carries no group metadata, so that nobody can tell.
    return false
  }

  isWrongPassword (error) {
    return error.name === 'KafkaJSSASLAuthenticationError'
  }

  described (error) {
    return `${error.name} ${error.type ?? ''} ${error.message}`
  }
}

const Readers = { next: 1 }
const QUICK = { maxWaitTimeInMs: MAX_WAIT_MS, heartbeatInterval: 200, sessionTimeout: PATIENCE_MS }

class Producer {
  #producer
  #codec
  #transaction

  constructor (producer, codec) {
    this.#producer = producer
    this.#codec = codec
  }

  close () {
    return this.#producer.disconnect()
  }

  async begin () {
    this.#transaction = await this.#producer.transaction()
  }

  async send (topic, records) {
    const messages = records.map(({ partition, key, value, headers = [], timestampMs }) => ({
      partition,
      key,
      value,
      headers: collected(headers),
      timestamp: timestampMs === undefined ? undefined : String(timestampMs)
    }))
    const compression = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }[this.#codec]
    const answers = await (this.#transaction ?? this.#producer).send({
      topic,
      messages,
      compression,
      acks: -1
    })
    const offsets = answers.map(({ partition, baseOffset }) => ({
      partition,
      offset: Number(baseOffset)
    }))
    return offsets.sort((a, b) => a.partition - b.partition)
  }

  async sendOffsets (member, records) {
    const next = new Map(records.map(record => [record.partition, record.offset + 1]))
    const partitions = [...next].map(([partition, offset]) => ({ partition, offset: `${offset}` }))
    await this.#transaction.sendOffsets({
      consumerGroupId: member.group,
      topics: [{ topic: member.topic, partitions }]
    })
  }

  async commit () {
    await this.#transaction.commit()
    this.#transaction = undefined
  }

  async abort () {
    await this.#transaction.abort()
    this.#transaction = undefined
  }
}

/** Fulfilled when each of these brokers has answered a fetch without anything to handle.
 *
 * Where the library starts anew, it begins at the beginning.
 */
function quietness (consumer, leaders, anew) {
  const busy = new Map()
  const loud = new Set(leaders)
  const { promise, resolve, reject } = Promise.withResolvers?.() ?? withResolvers()
  consumer.on(consumer.events.FETCH, ({ payload }) => busy.set(Number(payload.nodeId), false))
  consumer.on(consumer.events.START_BATCH_PROCESS, ({ payload }) => {
    busy.set(leaders[payload.partition], true)
  })
  consumer.on(consumer.events.FETCH_START, ({ payload }) => {
    // The next one begins after all that came with the last one is handled.
    const node = Number(payload.nodeId)
    if (busy.get(node) === false) loud.delete(node)
    if (loud.size === 0) resolve()
  })
  consumer.on(consumer.events.CRASH, ({ payload: { restart, error } }) => {
    if (!restart) reject(error)
    busy.clear()
    leaders.forEach(leader => loud.add(leader))
    anew()
  })
  return promise
}

function withResolvers () {
  const made = {}
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }))
  return made
}

function recordOf (partition, { key, value, headers, timestamp, offset }) {
  const entries = Object.entries(headers ?? {})
  return {
    partition,
    key,
    value,
    headers: entries.flatMap(([name, all]) => [all].flat().map(content => [name, content])),
    timestampMs: Number(timestamp),
    offset: Number(offset)
  }
}

/** Names with all their values, as the library wants them. */
function collected (headers) {
  const names = new Set(headers.map(([name]) => name))
  const all = name => headers.filter(([other]) => other === name).map(([, content]) => content)
  return Object.fromEntries([...names].map(name => [name, all(name)]))
}

function saslOptions ({ mechanism, username, password, token }) {
  const oauthBearerProvider = async () => ({ value: token })
  return { mechanism: MECHANISMS[mechanism], username, password, oauthBearerProvider }
}

function isRebalancing (error) {
  return error.type === 'REBALANCE_IN_PROGRESS'
}
