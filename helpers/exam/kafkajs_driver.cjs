// KafkaJS sits the exam of txnsim: docs/exam.md. NODE_PATH names the folder of its package.

const { Kafka, KafkaJSError, logLevel } = require('kafkajs')
const { version } = require('kafkajs/package.json')
const { Unsupported, serve } = require('./contract.cjs')

const producers = new Map() // to { producer, transaction }
const consumers = new Map() // to { consumer, records, wake }

function kafkaOf (command) {
  return new Kafka({
    brokers: command.bootstrap.split(','),
    clientId: command.client_id,
    requestTimeout: command.request_timeout_ms ?? 30000,
    logLevel: logLevel.NOTHING
  })
}

// The library's guide: whatever goes wrong in a transaction, abort it. It calls nothing fatal.
function described (raised) {
  const cause = raised.cause ?? raised
  return {
    name: cause.type ?? raised.name,
    retriable: false,
    abortable: raised instanceof KafkaJSError,
    fatal: false
  }
}

const commands = {
  // The library has no bound for a whole call but its five retries.
  async init (command) {
    if (!producers.has(command.producer)) {
      const producer = kafkaOf(command).producer({
        transactionalId: command.transactional_id,
        transactionTimeout: command.transaction_timeout_ms,
        maxInFlightRequests: 1,
        idempotent: true
      })
      producers.set(command.producer, { producer })
    }
    await producers.get(command.producer).producer.connect()
  },

  async begin ({ producer }) {
    const client = producers.get(producer)
    client.transaction = await client.producer.transaction()
  },

  async send ({ producer, topic, partition, value, wait }) {
    const { transaction } = producers.get(producer)
    if (!wait) throw new Unsupported('handing a record over without waiting')
    const [{ baseOffset }] = await transaction.send({ topic, messages: [{ partition, value }] })
    return { offset: Number(baseOffset) }
  },

  async 'send-offsets' ({ producer, group, offsets }) {
    const topics = offsets.map(([topic, partition, offset]) => ({
      topic,
      partitions: [{ partition, offset: String(offset) }]
    }))
    await producers.get(producer).transaction.sendOffsets({ consumerGroupId: group, topics })
  },

  async commit ({ producer }) {
    await producers.get(producer).transaction.commit()
  },

  async abort ({ producer }) {
    await producers.get(producer).transaction.abort()
  },

  // Always a member of its group; the library tells no positions.
  async consumer (command) {
    const consumer = kafkaOf(command).consumer({
      groupId: command.group,
      sessionTimeout: command.session_timeout_ms ?? 30000,
      maxWaitTimeInMs: 100,
      readUncommitted: command.isolation !== 'read_committed'
    })
    const reader = { consumer, records: [] }
    consumers.set(command.consumer, reader)
    await consumer.connect()
    await consumer.subscribe({ topics: [command.topic], fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        reader.records.push([partition, Number(message.offset), String(message.value)])
      }
    })
  },

  async subscribe (command) {
    if (command.protocol !== 'classic') throw new Unsupported(command.protocol)
    await commands.consumer(command)
  },

  async poll ({ consumer, timeout_ms: timeout }) {
    await new Promise(resolve => setTimeout(resolve, timeout))
    return { records: consumers.get(consumer).records.splice(0), positions: null }
  },

  async seek ({ consumer, topic, partition, offset }) {
    consumers.get(consumer).consumer.seek({ topic, partition, offset: String(offset) })
  },

  async close ({ name }) {
    const client = producers.get(name) ?? consumers.get(name)
    producers.delete(name)
    consumers.delete(name)
    await (client?.producer ?? client?.consumer)?.disconnect()
  }
}

serve({ library: 'kafkajs', version, commands, described })
