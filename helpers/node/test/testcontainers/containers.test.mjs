// The container as Testcontainers is asked for it; where TXNSIM_TEST_IMAGE names an image, it is started.

import assert from 'node:assert/strict'
import { connect as dial } from 'node:net'
import { once } from 'node:events'
import { test } from 'node:test'

import { getContainerRuntimeClient } from 'testcontainers'

import { connect, drop } from '../../index.mjs'
import { TxnsimContainer, scriptOf, variableOf } from '../../testcontainers.mjs'

const image = process.env.TXNSIM_TEST_IMAGE
const NO_IMAGE = 'TXNSIM_TEST_IMAGE names no image: `python -m tests.image.engine` stands for an engine where there is none'

test('every broker has a port, and so has the control port', () => {
  assert.deepEqual(new TxnsimContainer('txnsim', { brokers: 2 }).exposedPorts, [9092, 9093, 9080])
})

test('what is asked for becomes variables', () => {
  const { environment } = new TxnsimContainer('txnsim', {
    brokers: 1,
    topics: { orders: 3, payments: 1 },
    transactionVersion: 1,
    asVersion: '3.9',
    settings: { 'transaction.max.timeout.ms': 60_000, 'auto.create.topics.enable': false },
    controlToken: 'a-token-of-this-test'
  })
  assert.deepEqual(environment, {
    TXNSIM_BROKERS: '1',
    TXNSIM_PORT: '9092',
    TXNSIM_HTTP_PORT: '9080',
    TXNSIM_TOKEN: 'a-token-of-this-test',
    TXNSIM_TOPICS: 'orders:3,payments:1',
    TXNSIM_TRANSACTION_VERSION: '1',
    TXNSIM_AS_VERSION: '3.9',
    KAFKA_TRANSACTION_MAX_TIMEOUT_MS: '60000',
    KAFKA_AUTO_CREATE_TOPICS_ENABLE: 'false'
  })
})

test('topics have every form that start() takes', () => {
  for (const [topics, told] of [['orders:3', 'orders:3'], [['orders', 'payments:3'], 'orders,payments:3']]) {
    assert.equal(new TxnsimContainer('txnsim', { topics }).environment.TXNSIM_TOPICS, told)
  }
})

test('settings are spelled as in the image of Kafka', () => {
  assert.deepEqual(['a.b', 'a_b', 'a-b.c'].map(variableOf), ['KAFKA_A_B', 'KAFKA_A__B', 'KAFKA_A___B_C'])
})

test('it waits for the script that knows the ports', () => {
  const { createOpts } = new TxnsimContainer('txnsim')
  assert.deepEqual(createOpts.Entrypoint, ['sh'])
  assert.deepEqual(createOpts.Cmd, [
    '-c', 'while [ ! -f /tmp/txnsim-start.sh ]; do sleep 0.05; done; exec sh /tmp/txnsim-start.sh'
  ])
  assert.match(scriptOf(['a:1', 'b:2']), /^#!\/bin\/sh\nexport TXNSIM_ADVERTISED='a:1,b:2'\nexec python -m /)
})

test('a wrong option is named', () => {
  assert.throws(() => new TxnsimContainer('txnsim', { topic: 'orders' }), /no option 'topic'; there are brokers, topics,/)
  assert.throws(() => new TxnsimContainer('txnsim', { brokers: 0 }), /at least one broker, not 0/)
})

test('a container serves', { skip: image === undefined && NO_IMAGE, timeout: 180_000 }, async () => {
  const kafka = await new TxnsimContainer(image, { brokers: 2, topics: { orders: 3 } }).start()
  try {
    assert.equal(kafka.client.bootstrap, kafka.bootstrap)
    for (const address of kafka.brokers) {
      const [host, port] = address.split(':')
      const connection = dial(Number(port), host)
      await once(connection, 'connect')
      connection.destroy()
    }
    assert.equal((await kafka.client.topic('orders')).partitions.length, 3)
    const stranger = await connect(kafka.controlUrl, { token: 'another-token-than-that' })
    await assert.rejects(stranger.topic('orders'), { status: 401 })
  } finally {
    await kafka.stop()
  }
})

const NEEDS_IMAGE = { skip: image === undefined && NO_IMAGE, timeout: 180_000 }
const IDLE = { id: 'idle', point: 'client.request', api: 'EndTxn', action: drop() }

test('a fault that never struck is an error at the end', NEEDS_IMAGE, async () => {
  const kafka = await new TxnsimContainer(image, { brokers: 1 }).start()
  await kafka.client.faults.arm(IDLE)
  await assert.rejects(kafka.stop(), /^TxnsimError: 1 of the faults never struck \(idle: 0 crossings matched\)/)
  await assert.rejects(connect(kafka.controlUrl), 'it has stopped all the same')
  await kafka.stop()
})

test('a fault may miss where that is said', NEEDS_IMAGE, async () => {
  const kafka = await new TxnsimContainer(image, { brokers: 1, faultsMayMiss: true }).start()
  await kafka.client.faults.arm(IDLE)
  await kafka.stop()
})

test('a container that has gone before its test is told', NEEDS_IMAGE, async () => {
  const kafka = await new TxnsimContainer(image, { brokers: 1 }).start()
  await (await getContainerRuntimeClient()).container.getById(kafka.getId()).kill()
  await assert.rejects(kafka.stop(), /whether every fault has struck can't be asked: .*faultsMayMiss/)
})
