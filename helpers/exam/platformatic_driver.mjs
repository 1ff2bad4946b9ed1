// @platformatic/kafka sits the exam of txnsim: docs/exam.md.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { serve } from './contract.cjs'

const libraryPath = createRequire(process.cwd() + '/').resolve('@platformatic/kafka')
const { Consumer, Producer } = await import(libraryPath)
const { version } = JSON.parse(readFileSync(libraryPath.replace(/dist.index\.js$/, 'package.json')))

const producers = new Map()
const consumers = new Map()
const FENCED = ['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH', 'INVALID_PRODUCER_ID_MAPPING', 'TRANSACTIONAL_ID_AUTHORIZATION_FAILED']

// Errors say `canRetry`, of a request that the library has repeated already; they say nothing of transactions. Its guide aborts after an error,
// and takes a new producer where the broker has fenced this one.
function described (error) {
  const causes = [error]
  for (const cause of causes) causes.push(...(cause.errors ?? []), ...(cause.cause ? [cause.cause] : []))
  const name = causes.find(cause => cause.apiId)?.apiId ?? error.code ?? error.name
  const fatal = FENCED.includes(name)
  return { name, message: causes.map(cause => cause.message).join(': ').slice(0, 500), retriable: false, abortable: !fatal, fatal }
}

function base ({ bootstrap, client_id: clientId }) {
  return { clientId, bootstrapBrokers: bootstrap.split(',') }
}

const commands = {
  // A producer asks for its id when it begins first; the library takes its one time-out as that of transactions.
  async init (command) {
    const producer = new Producer({
      ...base(command),
      idempotent: true,
      transactionalId: command.transactional_id,
      timeout: command.transaction_timeout_ms,
      requestTimeout: command.request_timeout_ms
    })
    producers.set(command.producer, { producer, ...base(command), sent: [] })
    const transaction = await producer.beginTransaction()
    await transaction.cancel()
  },

  async begin ({ producer }) {
    const client = producers.get(producer)
    client.sent = []
    client.transaction = await client.producer.beginTransaction()
  },

  async send ({ producer, topic, partition, value, wait }) {
    const { transaction, sent } = producers.get(producer)
    const acknowledgement = transaction.send({ messages: [{ topic, partition, value: Buffer.from(value) }], acks: -1 })
    if (wait) return { offset: Number((await acknowledgement).offsets[0].offset) }
    acknowledgement.catch(() => {})
    sent.push(acknowledgement)
  },

  async 'send-offsets' ({ producer, group, offsets, consumer }) {
    const { transaction, clientId, bootstrapBrokers } = producers.get(producer)
    const member = consumers.get(consumer)?.consumer ?? new Consumer({ clientId, bootstrapBrokers, groupId: group, autocommit: false })
    if (!consumer) consumers.set(`of ${group}`, { consumer: member })
    await transaction.addConsumer(member)
    const { generationId, memberId } = member
    const metadata = { consumer: { groupId: group, generationId: consumer ? generationId : -1, memberId: consumer ? memberId : '', coordinatorId: await member.findGroupCoordinator() } }
    for (const [topic, partition, offset] of offsets) {
      await transaction.addOffset({ topic, partition, offset: BigInt(offset) - 1n, metadata })
    }
  },

  // What was sent without waiting belongs to the transaction: the library leaves it to the application to wait for it.
  async commit ({ producer }) {
    const { transaction, sent } = producers.get(producer)
    await Promise.all(sent)
    await transaction.commit()
  },

  async abort ({ producer }) {
    const { transaction, sent } = producers.get(producer)
    await Promise.allSettled(sent)
    await transaction.abort()
  },

  async consumer (command) {
    const offsets = Array.from({ length: command.partitions }, (_, partition) => ({ topic: command.topic, partition, offset: 0n }))
    await read(command, {}, { mode: 'manual', offsets })
  },

  async subscribe (command) {
    const session = { sessionTimeout: command.session_timeout_ms, rebalanceTimeout: command.session_timeout_ms, heartbeatInterval: 1000 }
    await read(command, { groupProtocol: command.protocol, ...(command.protocol === 'classic' ? session : {}) }, { mode: 'committed', fallbackMode: 'earliest' })
  },

  // Where the stream goes on to fetch is where the reader stands: what has come is taken at once.
  async poll ({ consumer, timeout_ms: timeout }) {
    await new Promise(resolve => setTimeout(resolve, timeout))
    const { stream, records, failed } = consumers.get(consumer)
    if (failed.length) throw failed.shift()
    const positions = Object.fromEntries([...stream.offsetsToFetch].map(([partitionKey, offset]) => [partitionKey.split(':').at(-1), Number(offset)]))
    return { records: records.splice(0), positions }
  },

  async 'end-offsets' ({ consumer }) {
    const { consumer: member, topic, isolationLevel } = consumers.get(consumer)
    const ends = (await member.listOffsets({ topics: [topic], timestamp: -1n, isolationLevel })).get(topic)
    return { ends: Object.fromEntries(ends.map((end, index) => [index, Number(end)])) }
  },

  async 'commit-positions' ({ consumer }) {
    const { consumer: member, stream, topic } = consumers.get(consumer)
    const offsets = [...stream.offsetsToFetch].map(([partitionKey, offset]) => ({ topic, partition: Number(partitionKey.split(':').at(-1)), offset, leaderEpoch: -1 }))
    await member.commit({ offsets })
  },

  async close ({ name }) {
    const client = producers.get(name) ?? consumers.get(name)
    producers.delete(name)
    consumers.delete(name)
    await (client?.producer ?? client?.consumer)?.close(true)
  }
}

// A member of its group in each case: the library has no other reader.
async function read (command, group, startPosition) {
  const isolationLevel = command.isolation === 'read_committed' ? 1 : 0
  const consumer = new Consumer({ ...base(command), groupId: command.group, autocommit: false, isolationLevel, maxWaitTime: 100, ...group })
  const reader = { consumer, topic: command.topic, isolationLevel, records: [], failed: [] }
  consumers.set(command.consumer, reader)
  reader.stream = await consumer.consume({ topics: [command.topic], ...startPosition })
  reader.stream.on('data', ({ partition, offset, value }) => reader.records.push([partition, Number(offset), String(value)]))
  reader.stream.on('error', error => reader.failed.push(error))
}

serve({ library: '@platformatic/kafka', version, commands, described })
