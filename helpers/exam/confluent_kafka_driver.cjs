// @confluentinc/kafka-javascript (librdkafka) sits the exam of txnsim: docs/exam.md. NODE_PATH names the folder of its package.

const { CODES, KafkaConsumer, Producer, librdkafkaVersion } = require('@confluentinc/kafka-javascript')
const { version } = require('@confluentinc/kafka-javascript/package.json')
const { serve } = require('./contract.cjs')

const POLL_MS = 50
const BATCH = 1000

const producers = new Map()
const consumers = new Map()
let [patience, bootstrap] = [15_000, '']

/** A method that ends in a callback, as a promise. */
function called (target, method, ...args) {
  return new Promise((resolve, reject) => {
    target[method](...args, (error, result) => error ? reject(error) : resolve(result))
  })
}

/** The library's own word on an error. */
function described (raised) {
  const entry = Object.entries(CODES.ERRORS).find(([, code]) => code === raised.code)
  return {
    name: entry?.[0] ?? raised.name,
    retriable: raised.isRetriable ?? false,
    abortable: raised.isTxnRequiresAbort ?? false,
    fatal: raised.isFatal ?? false
  }
}

async function consumerOf (command, groupSettings) {
  const consumer = new KafkaConsumer({
    'bootstrap.servers': command.bootstrap,
    'client.id': command.client_id,
    'group.id': command.group,
    'isolation.level': command.isolation,
    'enable.auto.commit': false,
    'fetch.wait.max.ms': 100,
    log_level: 0,
    ...groupSettings
  }, { 'auto.offset.reset': 'earliest' })
  consumer.on('event.error', () => {}) // an error of a connection is no answer to a command
  await called(consumer, 'connect', {})
  consumer.setDefaultConsumeTimeout(POLL_MS)
  consumers.set(command.consumer, consumer)
  return consumer
}

const commands = {
  async init (command) {
    [patience, bootstrap] = [command.patience_ms, command.bootstrap]
    if (!producers.has(command.producer)) { // else one that has timed out goes on
      const newProducer = new Producer({
        'bootstrap.servers': command.bootstrap,
        'client.id': command.client_id,
        'transactional.id': command.transactional_id,
        'transaction.timeout.ms': command.transaction_timeout_ms,
        'socket.timeout.ms': command.request_timeout_ms,
        'message.timeout.ms': patience,
        'linger.ms': 0,
        dr_cb: true,
        log_level: 0
      })
      newProducer.on('event.error', () => {})
      newProducer.on('delivery-report', (error, { opaque, offset }) => error ? opaque.reject(error) : opaque.resolve({ offset }))
      await called(newProducer, 'connect', {})
      newProducer.setPollInterval(POLL_MS / 10)
      producers.set(command.producer, newProducer)
    }
    await called(producers.get(command.producer), 'initTransactions', patience)
  },

  async begin ({ producer }) {
    await called(producers.get(producer), 'beginTransaction')
  },

  async send ({ producer, topic, partition, value, wait }) {
    let waits
    const sent = new Promise((resolve, reject) => { waits = { resolve, reject } })
    producers.get(producer).produce(topic, partition, Buffer.from(value), null, null, waits)
    sent.catch(() => {}) // of a record that nothing waits for the commit tells
    if (wait) return await sent
  },

  async 'send-offsets' ({ producer, group, offsets, consumer }) {
    const stranger = new KafkaConsumer({ 'bootstrap.servers': bootstrap, 'group.id': group, log_level: 0 }, {})
    if (!consumer) await called(stranger, 'connect', {}) // a group that has no member here
    const positions = offsets.map(([topic, partition, offset]) => ({ topic, partition, offset }))
    await called(producers.get(producer), 'sendOffsetsToTransaction', positions, consumers.get(consumer) ?? stranger, patience)
    if (!consumer) await called(stranger, 'disconnect')
  },

  async commit ({ producer }) {
    await called(producers.get(producer), 'commitTransaction', patience)
  },

  async abort ({ producer }) {
    await called(producers.get(producer), 'abortTransaction', patience)
  },

  async consumer (command) {
    const reader = await consumerOf(command, {})
    const partitions = [...Array(command.partitions).keys()]
    reader.assign(partitions.map(partition => ({ topic: command.topic, partition, offset: 0 })))
  },

  async subscribe (command) {
    const ofProtocol = { classic: { 'session.timeout.ms': command.session_timeout_ms } }
    const reader = await consumerOf(command, ofProtocol[command.protocol] ?? { 'group.protocol': command.protocol })
    reader.subscribe([command.topic])
  },

  async poll ({ consumer, timeout_ms: timeout }) {
    const [reader, records, until] = [consumers.get(consumer), [], Date.now() + timeout]
    while (Date.now() < until) {
      const messages = await called(reader, 'consume', BATCH)
      records.push(...messages.map(({ partition, offset, value }) => [partition, offset, String(value)]))
    }
    const knownPositions = reader.position().filter(({ offset }) => offset >= 0)
    return { records, positions: Object.fromEntries(knownPositions.map(({ partition, offset }) => [partition, offset])) }
  },

  async 'end-offsets' ({ consumer }) {
    const reader = consumers.get(consumer)
    const readEnds = reader.assignments().map(async ({ topic, partition }) => {
      const { highOffset } = await called(reader, 'queryWatermarkOffsets', topic, partition, patience)
      return [partition, highOffset]
    })
    return { ends: Object.fromEntries(await Promise.all(readEnds)) }
  },

  async seek ({ consumer, topic, partition, offset }) {
    await called(consumers.get(consumer), 'seek', { topic, partition, offset }, patience)
  },

  async 'commit-positions' ({ consumer }) {
    consumers.get(consumer).commitSync()
  },

  async close ({ name }) {
    const client = producers.get(name) ?? consumers.get(name)
    producers.delete(name)
    consumers.delete(name)
    if (client) await called(client, 'disconnect')
  }
}

serve({ library: '@confluentinc/kafka-javascript', version: `${version}, librdkafka ${librdkafkaVersion}`, commands, described })
