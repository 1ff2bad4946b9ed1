// @platformatic/kafka: consumers are streams, positions are added message by message.

import zlib from 'node:zlib'

import { PATIENCE_MS, pause, until } from '../lab.mjs'
import { library } from '../modules.mjs'

const { Admin, Consumer, FetchIsolationLevels, MessagesStreamModes, Producer } =
  await library('@platformatic/kafka')

const MAX_WAIT_MS = 100

export class Driver {
  // It takes zstd from Node.js, which has it from 22.15 on.
  codecs = ['none', 'gzip', 'snappy', 'lz4', ...('zstdCompressSync' in zlib ? ['zstd'] : [])]
  // They are a Map.
  canRepeatHeaders = false
  canTombstones = true
  canBeEmpty = true
  mechanisms = ['SCRAM-SHA-256', 'SCRAM-SHA-512', 'PLAIN', 'OAUTHBEARER']

  #options
  #admin

  constructor (bootstrapBrokers, { tls, sasl }) {
    // A transaction waits for the markers of the one before by attempts.
    this.#options = { clientId: 'client-matrix', bootstrapBrokers, tls, sasl, retries: 20, retryDelay: 50 }
    this.#admin = new Admin(this.#options)
  }

  async close () {
    await this.#admin.close()
  }

  // The cluster

  async brokers () {
    return (await this.#admin.metadata({})).brokers.size
  }

  async createTopic (topic, partitions) {
    const replicas = Math.min(3, await this.brokers())
    await this.#admin.createTopics({ topics: [topic], partitions, replicas })
    await until(`leaders of ${topic}`, async () => {
      const leaders = await this.leaders(topic).catch(error => {
        if (!isUnknownTopic(error)) throw error
      })
      return leaders?.length === partitions && leaders.every(leader => leader >= 0)
    })
  }

  async leaders (topic) {
    const { topics } = await this.#admin.metadata({ topics: [topic], forceUpdate: true })
    return topics.get(topic).partitions.map(({ leader }) => leader)
  }

  async positions (groupId, topic, partitions) {
    const indexes = [...Array(partitions).keys()]
    const groups = await this.#admin.listConsumerGroupOffsets({
      groups: [{ groupId, topics: [{ name: topic, partitionIndexes: indexes }] }]
    })
    const found = new Map(
      groups[0].topics[0].partitions.map(each => [each.partitionIndex, each.committedOffset])
    )
    return indexes.map(index => Number(found.get(index) ?? -1))
  }

  // Producers

  async producer ({ transactionalId, timeoutMs, codec, idempotent = false }) {
    const producer = new Producer({
      ...this.#options,
      transactionalId,
      // Without these it begins with producer id 0 and epoch 0, and a transactional id that has
      // been used before is refused to it: PRODUCER_FENCED (KIP-360's expected producer id).
      ...(transactionalId && { producerId: -1n, producerEpoch: -1 }),
      // It is the timeout of the transaction, too.
      timeout: timeoutMs ?? PATIENCE_MS,
      compression: codec,
      idempotent: idempotent || transactionalId !== undefined
    })
    return new TransactionalProducer(producer)
  }

  // Consumers

  #consumer (groupId, isolationLevel) {
    return new Consumer({
      ...this.#options,
      groupId,
      // A coordinator that has just been made takes a moment.
      retries: 20,
      isolationLevel,
      autocommit: false,
      maxWaitTime: MAX_WAIT_MS,
      heartbeatInterval: 200,
      sessionTimeout: PATIENCE_MS,
      rebalanceTimeout: PATIENCE_MS
    })
  }

  async member (groupId, topic) {
    const consumer = this.#consumer(groupId, FetchIsolationLevels.READ_COMMITTED)
    return new Member(consumer, topic)
  }

  /** Everything up to the end that this isolation level shows. */
  async read (topic, { committed }) {
    const levels = FetchIsolationLevels
    const isolationLevel = committed ? levels.READ_COMMITTED : levels.READ_UNCOMMITTED
    const consumer = this.#consumer(`${topic}-reader-${process.pid}-${Readers.next++}`, isolationLevel)
    const records = []
    try {
      const ends = (await consumer.listOffsets({ topics: [topic], isolationLevel })).get(topic)
      const mode = MessagesStreamModes.EARLIEST
      const stream = await consumer.consume({ topics: [topic], mode, isolationLevel })
      stream.on('data', message => records.push(recordOf(message)))
      const failure = new Promise((_resolve, reject) => stream.on('error', reject))
      const isAtEnd = () => ends.every((end, partition) => {
        return (stream.offsetsToFetch.get(`${topic}:${partition}`) ?? 0n) >= end
      })
      await Promise.race([until(`the end of ${topic}`, async () => isAtEnd()), failure])
      // What is in the stream's own buffer comes out before its end.
      await stream.close()
    } finally {
      await consumer.close(true)
    }
    return records.sort((a, b) => a.partition - b.partition || a.offset - b.offset)
  }

  // What errors mean

  isFenced (error) {
    return found(error, 'PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH')
  }

  isTimedOut (error) {
    // The abort has raised the epoch (KIP-360).
    return found(error, 'PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH')
  }

  isStaleMember (error) {
    return found(error, 'ILLEGAL_GENERATION', 'UNKNOWN_MEMBER_ID', 'REBALANCE_IN_PROGRESS')
  }

  isWrongPassword (error) {
    return family(error).some(({ code }) => code === 'PLT_KFK_AUTHENTICATION')
  }

  described (error) {
    return family(error).map(({ apiId, code, message }) => `${apiId ?? code} ${message}`).join('; ')
  }
}

const Readers = { next: 1 }

class TransactionalProducer {
  #producer
  #transaction

  constructor (producer) {
    this.#producer = producer
  }

  close () {
    return this.#producer.close()
  }

  async begin () {
    this.#transaction = await this.#producer.beginTransaction()
  }

  async send (topic, records) {
    const messages = records.map(({ partition, key, value, headers = [], timestampMs }) => ({
      topic,
      partition,
      key,
      value,
      headers: new Map(headers.map(([name, content]) => [Buffer.from(name), content])),
      timestamp: timestampMs === undefined ? undefined : BigInt(timestampMs)
    }))
    const { offsets } = await (this.#transaction ?? this.#producer).send({ messages, acks: -1 })
    const answered = offsets.map(({ partition, offset }) => ({ partition, offset: Number(offset) }))
    return answered.sort((a, b) => a.partition - b.partition)
  }

  async sendOffsets (member, records) {
    await this.#transaction.addConsumer(member.consumer)
    const last = new Map(records.map(({ partition, source }) => [partition, source]))
    for (const message of last.values()) await this.#transaction.addOffset(message)
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

/** A member of a group whose stream fills a queue. */
class Member {
  #queue = []
  #joins = 0
  #error
  #stopped = false
  #topic

  constructor (consumer, topic) {
    this.consumer = consumer
    this.#topic = topic
    consumer.on('consumer:group:join', () => { this.#joins += 1 })
    const mode = MessagesStreamModes.COMMITTED
    const options = { topics: [topic], mode, fallbackMode: MessagesStreamModes.EARLIEST }
    // Not waited for: others may have to let it in.
    consumer.consume(options).then(stream => this.#follow(stream), error => this.#fail(error))
  }

  /** All records that have come; none at the end. */
  async take () {
    while (!this.#stopped) {
      if (this.#error) throw this.#error
      if (this.#queue.length > 0) return this.#queue.splice(0)
      await pause(5)
    }
    return []
  }

  /** Until it has had to join again. */
  async disturbed () {
    await until('a second join', async () => this.#joins > 1)
  }

  partitions () {
    const mine = this.consumer.assignments?.find(({ topic }) => topic === this.#topic)
    return mine?.partitions ?? []
  }

  async stop () {
    this.#stopped = true
  }

  async close () {
    await this.stop()
    await this.consumer.close(true)
  }

  #follow (stream) {
    stream.on('data', message => {
      this.#queue.push({ ...recordOf(message), source: message })
    })
    stream.on('error', error => this.#fail(error))
  }

  #fail (error) {
    this.#error = error
  }
}

function recordOf ({ partition, key, value, headers, timestamp, offset }) {
  return {
    partition,
    key: key ?? null,
    value: value ?? null,
    headers: [...headers].map(([name, content]) => [`${name}`, content]),
    timestampMs: Number(timestamp),
    offset: Number(offset)
  }
}

/** The error, those that it consists of, and their causes. */
function family (error) {
  if (!error) return []
  return [error, ...(error.errors ?? []).flatMap(family), ...family(error.cause)]
}

/** A broker has not heard of it yet; the library says so without Kafka's code. */
function isUnknownTopic (error) {
  return family(error).some(({ message }) => message.startsWith('Unknown topic '))
}

function found (error, ...names) {
  return family(error).some(({ apiId }) => names.includes(apiId))
}
