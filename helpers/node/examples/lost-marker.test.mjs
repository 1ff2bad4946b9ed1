// The first fault: a commit's marker is lost on its way to the partition. The coordinator waits for its answer for
// request.timeout.ms, 30 s; an advance of the cluster clock lets that pass, and the coordinator sends the marker again.

import assert from 'node:assert/strict'
import { test } from 'node:test'

import kafkajs from 'kafkajs'
import { drop, start } from 'txnsim-test'

const { Kafka, Partitioners, logLevel } = kafkajs

test('a commit survives a lost marker', async t => {
  const cluster = await start({ topics: { orders: 1 } }, t)
  const kafka = new Kafka({ brokers: cluster.brokers, logLevel: logLevel.NOTHING })
  const producer = kafka.producer({
    transactionalId: 'shop', maxInFlightRequests: 1, idempotent: true, createPartitioner: Partitioners.DefaultPartitioner
  })
  t.after(() => producer.disconnect())
  await producer.connect()
  await cluster.faults.arm({ id: 'lost', point: 'peer.request', api: 'WriteTxnMarkers', limit: 1, action: drop() })
  const transaction = await producer.transaction()
  await transaction.send({ topic: 'orders', messages: [{ value: 'one order' }] })
  const commitStart = Date.now()
  await transaction.commit()
  await cluster.faults.waitUntilStruck('lost')
  await cluster.advanceClock('31s')
  await cluster.waitForTransaction('shop', 'CompleteCommit')
  await cluster.assertExactlyOnce(['one order'], 'orders')
  assert.ok(Date.now() - commitStart < 25_000, `it took ${Date.now() - commitStart} ms`)
  t.diagnostic(`from the commit to its end: ${Date.now() - commitStart} ms`)
})
