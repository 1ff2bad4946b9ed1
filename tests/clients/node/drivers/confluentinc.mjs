// @confluentinc/kafka-javascript: librdkafka, asked by callbacks. What a member is told of a rebalance waits until the batch
// that it took has been dealt with, as in a program that ends its transaction first.

import { assert, PATIENCE_MS, pause, until } from '../lab.mjs'
import { library } from '../modules.mjs'

const { default: confluent } = await library('@confluentinc/kafka-javascript')
const { CODES, features, KafkaConsumer, KafkaJS, Producer: Plain } = confluent
const { ERRORS } = CODES

const POLL_MS = 50
const BATCH = 100
const QUESTION_MS = 10_000
const FLUSH_MS = 1_000
// Errors of connections are told without their code.
const REFUSED = 'authentication failure'

export class Driver {
  // zstd is there where it was built with it.
  codecs = ['none', ...['gzip', 'snappy', 'lz4', 'zstd'].filter(name => features.includes(name))]
  canRepeatHeaders = true
  canTombstones = true
  // It writes an empty key or value as null (1.10.1).
  canBeEmpty = false
  mechanisms = ['SCRAM-SHA-256', 'SCRAM-SHA-512', 'PLAIN', 'OAUTHBEARER']

  #config
  #admin
  #asking

  constructor (bootstrap, security, log) {
    this.log = log
    this.#config = {
      'bootstrap.servers': bootstrap.join(','),
      'retry.backoff.ms': 50,
      log_level: 2, // what is told in the log comes as an error, too
      ...configOf(security)
    }
  }

  async close () {
    await this.#admin?.disconnect()
    await this.#asking?.close()
  }

  // The cluster

  async brokers () {
    return (await this.#metadata({ allTopics: true })).brokers.length
  }

  async createTopic (topic, numPartitions) {
    const replicationFactor = Math.min(3, await this.brokers())
    const topics = [{ topic, numPartitions, replicationFactor }]
    const admin = await this.#connectedAdmin()
    assert(await admin.createTopics({ topics }), `${topic} was there already`)
    await until(`leaders of ${topic}`, async () => {
      const leaders = await this.leaders(topic)
      return leaders.length === numPartitions && leaders.every(leader => leader >= 0)
    })
  }

  async leaders (topic) {
    const { topics } = await this.#metadata({ topic })
    const found = topics.find(({ name }) => name === topic)?.partitions ?? []
    return found.sort((a, b) => a.id - b.id).map(({ leader }) => leader)
  }

  async positions (groupId, topic, partitions) {
    const topics = [{ topic, partitions: [...Array(partitions).keys()] }]
    const found = await (await this.#connectedAdmin()).fetchOffsets({ groupId, topics })
    const offsets = new Map(found[0].partitions.map(({ partition, offset }) => [partition, offset]))
    return [...Array(partitions).keys()].map(partition => Math.max(-1, Number(offsets.get(partition) ?? -1)))
  }

  /** What a producer is told first: that it may not come in, or metadata. */
  async #metadata (which) {
    this.#asking ??= await this.producer({})
    return this.#asking.metadata(which)
  }

  async #connectedAdmin () {
    if (!this.#admin) {
      const admin = new KafkaJS.Kafka({ ...this.#config }).admin()
      await admin.connect()
      this.#admin = admin
    }
    return this.#admin
  }

  // Producers

  async producer ({ transactionalId, timeoutMs = 60_000, codec = 'none', idempotent = false }) {
    const producer = new Producer({
      ...this.#config,
      dr_cb: true,
      'linger.ms': 0,
      'enable.idempotence': idempotent || transactionalId !== undefined,
      'compression.codec': codec,
      ...(transactionalId && { 'transactional.id': transactionalId, 'transaction.timeout.ms': timeoutMs })
    }, this.log)
    try {
      await producer.connect()
      if (transactionalId) await producer.ask('initTransactions', PATIENCE_MS)
    } catch (error) {
      await producer.close()
      throw error
    }
    return producer
  }

  // Consumers

  async member (group, topic) {
    const member = new Member(group, topic, this.#config)
    await called(member.consumer, 'connect', {})
    member.consumer.subscribe([topic])
    member.poll()
    return member
  }

  /** Everything that this isolation level shows, up to the end of each partition. */
  async read (topic, { committed }) {
    const partitions = (await this.leaders(topic)).map((_leader, partition) => partition)
    const consumer = new KafkaConsumer({
      ...this.#config,
      'group.id': `${topic}-reader`,
      'enable.auto.commit': false,
      'enable.partition.eof': true,
      'fetch.wait.max.ms': POLL_MS,
      'isolation.level': committed ? 'read_committed' : 'read_uncommitted'
    }, { 'auto.offset.reset': 'earliest' })
    const ended = new Set()
    const records = []
    consumer.on('partition.eof', ({ partition }) => ended.add(partition))
    await called(consumer, 'connect', {})
    try {
      consumer.setDefaultConsumeTimeout(POLL_MS)
      consumer.assign(partitions.map(partition => ({ topic, partition, offset: 0 })))
      await until(`the end of ${topic}`, async () => {
        records.push(...await called(consumer, 'consume', BATCH))
        return partitions.every(partition => ended.has(partition))
      })
    } finally {
      await called(consumer, 'disconnect')
    }
    return records.map(recordOf).sort((a, b) => a.partition - b.partition || a.offset - b.offset)
  }

  // What errors mean

  isFenced (error) {
    return error.code === ERRORS.ERR__FENCED && error.isFatal
  }

  isTimedOut (error) {
    // librdkafka keeps to the flow before transactions v2, where the raised epoch of the abort fences the producer.
    return this.isFenced(error)
  }

  isStaleMember (error) {
    const stale = [ERRORS.ERR_ILLEGAL_GENERATION, ERRORS.ERR_UNKNOWN_MEMBER_ID, ERRORS.ERR_STALE_MEMBER_EPOCH]
    return error.isTxnRequiresAbort && stale.includes(error.code)
  }

  isWrongPassword (error) {
    return error.message === REFUSED
  }

  described (error) {
    return `${error.name} ${error.code} ${error.message}`
  }
}

class Producer {
  #client
  #refused

  constructor (config, log) {
    this.#client = new Plain(config)
    // A wrong password is told here and nowhere else: questions go on until their time is up.
    this.#client.on('event.error', error => {
      log(error.message)
      if (error.message === REFUSED) this.#refused = error
    })
    this.#client.on('delivery-report', (error, { opaque, partition, offset }) => {
      if (error) opaque.reject(error)
      else opaque.resolve({ partition, offset })
    })
  }

  async connect () {
    const connected = called(this.#client, 'connect', { timeout: QUESTION_MS })
    let over = false
    connected.catch(() => {}).finally(() => { over = true })
    while (!over) {
      // A producer that is not connected yet is told nothing unless it is polled.
      if (this.#client.isConnected()) this.#client.poll()
      if (this.#refused) throw this.#refused
      await pause(POLL_MS)
    }
    await connected
    this.#client.setPollInterval(POLL_MS / 10)
  }

  metadata (which) {
    return called(this.#client, 'getMetadata', { ...which, timeout: QUESTION_MS })
  }

  ask (call, ...given) {
    return called(this.#client, call, ...given)
  }

  async close () {
    if (this.#client.isConnected()) await called(this.#client, 'disconnect', FLUSH_MS)
  }

  begin () {
    return this.ask('beginTransaction')
  }

  async send (topic, records) {
    const sent = records.map(({ partition, key, value, headers = [], timestampMs }) => new Promise((resolve, reject) => {
      const pairs = headers.map(([name, content]) => ({ [name]: content }))
      this.#client.produce(topic, partition, value, key, timestampMs, { resolve, reject }, pairs)
    }))
    const bases = new Map()
    for (const { partition, offset } of await Promise.all(sent)) {
      bases.set(partition, Math.min(bases.get(partition) ?? Infinity, offset))
    }
    return [...bases].sort(([a], [b]) => a - b).map(([partition, offset]) => ({ partition, offset }))
  }

  sendOffsets (member, records) {
    const next = new Map(records.map(record => [record.partition, record.offset + 1]))
    const offsets = [...next].map(([partition, offset]) => ({ topic: member.topic, partition, offset }))
    return this.ask('sendOffsetsToTransaction', offsets, member.consumer, PATIENCE_MS)
  }

  commit () {
    return this.ask('commitTransaction', PATIENCE_MS)
  }

  abort () {
    return this.ask('abortTransaction', PATIENCE_MS)
  }
}

/** It polls all the time. A revocation is answered when the batch that was taken has been dealt with. */
class Member {
  #given = []
  #partitions = []
  #revoked = false
  #taken = false
  #stopped = false
  #polling
  #error

  constructor (group, topic, config) {
    this.group = group
    this.topic = topic
    const member = this
    this.consumer = new KafkaConsumer({
      ...config,
      'group.id': group,
      'enable.auto.commit': false,
      'isolation.level': 'read_committed',
      'fetch.wait.max.ms': POLL_MS,
      'heartbeat.interval.ms': 200,
      'session.timeout.ms': PATIENCE_MS,
      rebalance_cb (error, partitions) {
        if (error.code === ERRORS.ERR__ASSIGN_PARTITIONS) {
          this.assign(partitions)
          member.#partitions = partitions.map(({ partition }) => partition)
        } else {
          member.#revoked = true
          member.#letGo()
        }
      }
    }, { 'auto.offset.reset': 'earliest' })
    this.consumer.setDefaultConsumeTimeout(POLL_MS)
  }

  poll () {
    this.#polling = (async () => {
      while (!this.#stopped) {
        const records = await called(this.consumer, 'consume', BATCH)
        if (!this.#revoked && records.length > 0) this.#given.push(records.map(recordOf))
      }
    })().catch(error => { this.#error = error })
  }

  /** The records of the next batch; those that were taken before are dealt with. None at the end. */
  async take () {
    this.#taken = false
    this.#letGo()
    while (!this.#stopped) {
      if (this.#error) throw this.#error
      const records = this.#given.shift()
      if (records) {
        this.#taken = true
        return records
      }
      await pause(5)
    }
    return []
  }

  async disturbed () {
    await until('a rebalance', async () => this.#revoked)
  }

  partitions () {
    return this.#partitions
  }

  async stop () {
    this.#stopped = true
    await this.#polling
    this.#taken = false
    this.#letGo()
  }

  async close () {
    await this.stop()
    await called(this.consumer, 'disconnect')
  }

  /** What was revoked, once nothing of it is in work. */
  #letGo () {
    if (!this.#revoked || this.#taken) return
    this.#revoked = false
    this.#given = []
    this.#partitions = []
    this.consumer.unassign()
  }
}

/** A method that ends in a callback, as a promise. */
function called (target, method, ...given) {
  return new Promise((resolve, reject) => {
    target[method](...given, (error, answer) => error ? reject(error) : resolve(answer))
  })
}

function recordOf ({ partition, key, value, headers, timestamp, offset }) {
  const pairs = (headers ?? []).map(header => {
    const { key: name, ...content } = header
    return Object.entries(name === undefined ? content : header)[0]
  })
  return { partition, key, value, headers: pairs, timestampMs: timestamp, offset }
}

function configOf ({ tls, sasl }) {
  return {
    ...((tls || sasl) && { 'security.protocol': `${sasl ? 'SASL_' : ''}${tls ? 'SSL' : 'PLAINTEXT'}` }),
    ...(tls && { 'ssl.ca.pem': tls.ca }),
    ...(tls?.cert && { 'ssl.certificate.pem': tls.cert, 'ssl.key.pem': tls.key }),
    ...(sasl && { 'sasl.mechanisms': sasl.mechanism }),
    ...(sasl?.mechanism === 'OAUTHBEARER'
      ? {
          oauthbearer_token_refresh_cb: async () => ({
            tokenValue: sasl.token,
            lifetime: Date.now() + 3_600_000,
            principal: sasl.username
          })
        }
      : sasl && { 'sasl.username': sasl.username, 'sasl.password': sasl.password })
  }
}
