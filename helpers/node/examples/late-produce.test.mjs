// A Produce request is held on its way, its producer gives up and aborts, and then the request arrives after all (KIP-890).
// What KafkaJS and an onlooker saw is judged by the checkers that judge the shipped scenario of the same story, and must come
// to the same. `node --test examples/`, after `npm install` there.

import assert from 'node:assert/strict'
import { before, test } from 'node:test'

import kafkajs from 'kafkajs'
import { fail, hold, start } from 'txnsim-test'

const { Kafka, Partitioners, logLevel } = kafkajs
const TOPIC = 'payments'

// Those of the scenario: with no verification, with it, and under transactions v2.
const MODES = {
  'V-': { transactionVersion: 0, settings: { 'transaction.partition.verification.enable': false } },
  'V+': { transactionVersion: 1 },
  TV2: { transactionVersion: 2 }
}

let declared

before(async () => {
  const cluster = await start({ brokers: 1 })
  declared = await cluster.runScenario('z01')
  await cluster.stop()
})

for (const [mode, options] of Object.entries(MODES)) {
  test(`a late produce comes to what the scenario says: ${mode}`, async t => {
    const cluster = await start({ ...options, topics: { [TOPIC]: 1 } }, t)
    const history = await withProducers(cluster, connect => playLateProduce(cluster, connect))
    const verdict = await history.judge()
    const { observed } = declared.runs.find(run => run.run === mode)
    assert.equal(verdict.kinds.join(', ') || 'healthy', observed, JSON.stringify(verdict.anomalies))
    assert.equal((await cluster.openTransactions('hanging')).length > 0, mode === 'V-')
  })
}

async function playLateProduce (cluster, connect) {
  const history = cluster.history('app')
  const producer = await connect({ transactionalId: 'app', maxInFlightRequests: 1, idempotent: true })
  const transaction = await producer.transaction()
  const { producer_id: id, producer_epoch: epoch, coordinator } = await cluster.transaction('app')
  // KafkaJS has one connection to each broker, and a broker handles what comes on one in order: the abort must not stand
  // behind the Produce that is held.
  const { replicas } = (await cluster.topic(TOPIC)).partitions[0]
  await cluster.moveLeader(TOPIC, 0, replicas.map(replica => replica.broker).find(replica => replica !== coordinator))

  history.add({ seen: 'initialised', transactional_id: 'app', producer_id: id, producer_epoch: epoch })
  history.add({ seen: 'began', transaction: 't1', transactional_id: 'app' })
  const [{ baseOffset }] = await transaction.send({ topic: TOPIC, messages: [{ partition: 0, value: 'first' }] })
  history.add(wrote('first', { transaction: 't1', offset: Number(baseOffset) }))

  await cluster.faults.arm({
    id: 'late-produce', point: 'client.request', api: 'Produce', transactional_id: 'app', action: hold()
  })
  const lateSend = transaction.send({ topic: TOPIC, messages: [{ partition: 0, value: 'late' }] }).catch(error => error)
  await cluster.faults.waitUntilStruck('late-produce')
  history.add(wrote('late', { transaction: 't1', outcome: 'unknown' })) // the application waits no longer
  await transaction.abort()
  history.add({ seen: 'ended', transaction: 't1', commit: false })
  await cluster.waitForTransaction('app', ['CompleteAbort', 'Empty'])
  await cluster.faults.release('late-produce')
  await cluster.faults.disarm('late-produce') // or else KafkaJS would be held once more when it asks again
  await lateSend

  const bystander = await connect({})
  for (const value of ['after-1', 'after-2']) {
    const [sent] = await bystander.send({ topic: TOPIC, messages: [{ partition: 0, value }] })
    history.add(wrote(value, { offset: Number(sent.baseOffset) }))
  }
  await history.look(TOPIC, 0)
  return history
}

test('a transaction survives a leader that has moved', async t => {
  const cluster = await start({ brokers: 1, topics: { [TOPIC]: 1 } }, t)
  await cluster.faults.arm({
    id: 'moved', point: 'client.request', api: 'Produce', limit: 1, action: fail('NOT_LEADER_OR_FOLLOWER')
  })
  await withProducers(cluster, async connect => {
    const producer = await connect({ transactionalId: 'app', maxInFlightRequests: 1, idempotent: true })
    const transaction = await producer.transaction()
    await transaction.send({ topic: TOPIC, messages: [{ value: 'v' }] })
    await transaction.commit()
  })
  assert.equal((await cluster.faults.get('moved')).struck, 1)
  await cluster.waitForTransaction('app', 'CompleteCommit')
  await cluster.assertNoHangingTransactions()
})

/** Producers that are disconnected before their cluster stops: KafkaJS looks for it for a long time otherwise. */
async function withProducers (cluster, play) {
  const kafka = new Kafka({
    brokers: cluster.brokers,
    logLevel: logLevel.NOTHING,
    // KafkaJS asks any connected broker where its coordinator is, also one whose connection stands still: it must not
    // wait for long until it asks another.
    requestTimeout: 5_000,
    retry: { initialRetryTime: 100, retries: 10 }
  })
  const producers = []
  try {
    return await play(async options => {
      const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...options })
      producers.push(producer)
      await producer.connect()
      return producer
    })
  } finally {
    for (const producer of producers) await producer.disconnect()
  }
}

function wrote (value, fields) {
  return { seen: 'wrote', topic: TOPIC, partition: 0, value, ...fields }
}
