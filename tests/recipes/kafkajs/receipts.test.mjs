import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'

import kafkajs from 'kafkajs'

import { ReceiptService } from './receipts.mjs'
import { startCluster } from './txnsim.mjs'

const PARTITIONS = 3
const END = 'end'

let cluster, kafka, admin

before(async () => {
  cluster = await startCluster()
  kafka = new kafkajs.Kafka({
    brokers: cluster.brokers,
    retry: { initialRetryTime: 50, retries: 10 },
    logLevel: kafkajs.logLevel.NOTHING
  })
  admin = kafka.admin()
  await admin.connect()
})

after(async () => {
  await admin?.disconnect()
  await cluster?.stop()
})

test('each order has one receipt, though the service fails in the middle', async t => {
  // Names of its own: tests share the cluster, and nothing else.
  const run = randomUUID()
  const names = { name: `shop-${run}`, orders: `orders-${run}`, receipts: `receipts-${run}` }
  await createTopics(names.orders, names.receipts)
  const orders = [...Array(20).keys()].map(number => `order ${number}`)
  await write(names.orders, orders.map((value, at) => ({ value, partition: at % PARTITIONS })))

  let failures = 0
  const service = new ReceiptService(kafka, {
    ...names,
    notify: async order => {
      // The receipt is written by now, and not committed.
      if (order === 'order 7' && failures++ === 0) throw new Error('no network')
    }
  })
  t.after(() => service.stop())
  await service.start()
  await until(async () => (await positions(names)) === orders.length)
  await service.stop()

  assert.equal(failures, 2)
  const receipts = await readAll(names.receipts)
  assert.deepEqual(receipts.sort(), orders.map(order => `receipt of ${order}`).sort())
})

async function createTopics (...topics) {
  await admin.createTopics({
    topics: topics.map(topic => ({ topic, numPartitions: PARTITIONS, replicationFactor: 3 }))
  })
}

async function write (topic, messages) {
  const producer = kafka.producer({ createPartitioner: () => ({ message }) => message.partition })
  await producer.connect()
  await producer.send({ topic, messages })
  await producer.disconnect()
}

// How many orders are done, by what the group has committed.
async function positions ({ name, orders }) {
  const [{ partitions }] = await admin.fetchOffsets({ groupId: name, topics: [orders] })
  return partitions.reduce((sum, { offset }) => sum + Math.max(0, Number(offset)), 0)
}

// All that read_committed shows, up to a mark that is written now.
async function readAll (topic) {
  await write(topic, [...Array(PARTITIONS).keys()].map(partition => ({ value: END, partition })))
  const consumer = kafka.consumer({ groupId: `reader-${randomUUID()}`, maxWaitTimeInMs: 100 })
  const values = []
  let ends = 0
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ message }) => {
      const value = message.value.toString()
      value === END ? ends++ : values.push(value)
    }
  })
  await until(() => ends === PARTITIONS)
  await consumer.disconnect()
  return values
}

async function until (condition) {
  const giveUp = Date.now() + 60_000
  while (!(await condition())) {
    assert.ok(Date.now() < giveUp, 'not in time')
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}
