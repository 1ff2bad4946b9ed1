import assert from 'node:assert/strict'
import { test } from 'node:test'

import confluent from '@confluentinc/kafka-javascript'
import { drop, start } from 'txnsim-test'

import { ReceiptService } from './receipts.mjs'

const { Kafka, logLevel } = confluent.KafkaJS
const ORDERS = [...Array(20).keys()].map(number => `order ${number}`)
const RECEIPTS = ORDERS.map(order => `receipt of ${order}`)
const TOPICS = { orders: 3, receipts: 3 }
const SETTINGS = { preset: 'tests' }

test('each order has one receipt, though the service fails in the middle', async t => {
  const cluster = await start({ topics: TOPICS, settings: SETTINGS }, t)
  let failures = 0
  await serve(cluster, async order => {
    // The receipt is written by now, and not committed.
    if (order === 'order 7' && failures++ === 0) throw new Error('no network')
  })

  assert.equal(failures, 2)
  await cluster.assertExactlyOnce(RECEIPTS, 'receipts')
  await cluster.assertNoHangingTransactions()
})

// The coordinator waits for the marker's answer for 30 s, then sends it again.
test('a marker that is lost delays a receipt and loses none', async t => {
  const cluster = await start({ topics: TOPICS, settings: SETTINGS }, t)
  const marker = { point: 'peer.request', api: 'WriteTxnMarkers', topic: 'receipts' }
  await cluster.faults.arm({ id: 'lost', ...marker, limit: 1, action: drop() })
  const served = serve(cluster)
  await cluster.faults.waitUntilStruck('lost')
  await cluster.advanceClock('31s')
  await served

  await cluster.assertExactlyOnce(RECEIPTS, 'receipts')
  await cluster.assertNoHangingTransactions()
})

/** The service, from the first order to the last receipt. */
async function serve (cluster, notify) {
  const kafka = new Kafka({ kafkaJS: { brokers: cluster.brokers, logLevel: logLevel.NOTHING } })
  const shop = kafka.producer()
  const service = new ReceiptService(kafka, { name: 'shop', notify })
  await shop.connect()
  try {
    await shop.send({ topic: 'orders', messages: ORDERS.map(value => ({ value })) })
    await service.start()
    const giveUp = Date.now() + 60_000
    while ((await cluster.committed('receipts')).length < ORDERS.length) {
      assert.ok(Date.now() < giveUp, 'not in time')
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  } finally {
    await service.stop()
    await shop.disconnect()
  }
}
