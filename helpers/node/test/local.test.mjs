// What needs no Kafka client: the process, the answers of the control port, resets, events.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { test } from 'node:test'

import { connect, drop, hold, start } from '../index.mjs'

test('one cluster for several tests', async t => {
  const cluster = await start({
    brokers: 2,
    topics: { orders: 2 },
    settings: { 'broker.heartbeat.interval.ms': 50 }
  }, t)
  const { bootstrap } = cluster
  assert.equal(cluster.brokers.length, 2)

  await t.test('a reset takes it back to its start or to a snapshot', async () => {
    await cluster.createTopic('payments', { partitions: 1, configs: { 'cleanup.policy': 'compact' } })
    await cluster.snapshot('with-payments')
    await cluster.createTopic('more')
    await cluster.reset('with-payments')
    assert.deepEqual((await cluster.topic('payments')).configs, { 'cleanup.policy': 'compact' })
    await assert.rejects(cluster.topic('more'), /GET \/api\/v1\/topics lists them/)
    await cluster.reset()
    await assert.rejects(cluster.topic('payments'))
    assert.equal((await connect(cluster.url)).bootstrap, bootstrap)
    await cluster.assertNoHangingTransactions()
  })

  await t.test('a broker is killed, an hour passes, and a reset mends all', async () => {
    await cluster.killBroker(2)
    assert.equal((await cluster.topic('orders')).partitions[0].replicas.some(replica => replica.is_running), true)
    await cluster.advanceClock(3_600_000)
    await cluster.advanceClock('2m')
    await assert.rejects(cluster.advanceClock(1.5), /expected a whole number of milliseconds/)
    await assert.rejects(cluster.advanceClock('2 minutes'), /no duration such as 500ms/)
    await cluster.reset()
  })

  await t.test('a fault that never struck is named', async () => {
    await cluster.faults.arm({ id: 'idle', point: 'client.request', api: 'EndTxn', action: drop() })
    await assert.rejects(cluster.reset(), /idle: 0 crossings matched/)
    await cluster.faults.disarmAll()
    await cluster.faults.forget()
    await cluster.faults.verify()
  })

  await t.test("what was committed is compared in the words of Python's tests", async () => {
    await cluster.assertExactlyOnce(['a', Buffer.from('b')], ['b', 'a'])
    await cluster.assertExactlyOnce('orders', [])
    assert.deepEqual(await cluster.committed('orders'), [])
    await assert.rejects(cluster.assertExactlyOnce(['a', 'b'], ['a', 'a']), {
      message: 'not exactly once, from what was given to what was given:\n' +
        "missing: 1 record\n  'b'\nmore than once: 1 record\n  'a'"
    })
    await assert.rejects(cluster.committed('nope'), /GET \/api\/v1\/topics lists them/)
  })

  await t.test('a report tells what happened, and so does a wait in vain', async () => {
    await cluster.faults.arm({ id: 'seen', point: 'client.request', api: 'EndTxn', action: drop() })
    assert.match(await cluster.report(), /seen: 0 matched, 0 struck/)
    await assert.rejects(cluster.faults.waitUntilStruck('seen', { timeoutMs: 5 }), /seen: 0 matched, 0 struck/)
    await cluster.faults.disarmAll()
    await cluster.faults.forget()
  })

  await t.test('a refusal says what to do', async () => {
    await assert.rejects(cluster.faults.arm({ id: 'x', point: 'nowhere', action: hold() }), { status: 422 })
    assert.deepEqual(await cluster.faults.list(), [])
    await assert.rejects(cluster.transaction('nobody'), { status: 404 })
    await assert.rejects(cluster.waitForTransaction('nobody', 'Empty', { timeoutMs: 5 }), /no coordinator knows it/)
    await assert.rejects(cluster.waitForTransaction('nobody', 'CompletCommit'), /did you mean CompleteCommit/)
  })

  await t.test('events are heard as they happen', async () => {
    const enough = new AbortController()
    const firstEvent = (async () => {
      for await (const event of cluster.events({ kinds: ['fault'], signal: enough.signal })) return event
    })()
    while ((await cluster.ask('POST', '/api/v1/trace', { body: { level: 'brief' } })).listeners === 0);
    await cluster.faults.arm({ id: 'seen', point: 'client.request', api: 'EndTxn', action: drop() })
    const event = await firstEvent
    assert.deepEqual([event.k, event.d.rule], ['fault.arm', 'seen'])
    await cluster.faults.disarm('seen')
    await cluster.faults.forget()
  })
})

test('an option that is unknown is refused, with what was meant', async () => {
  await assert.rejects(start({ broker: 2 }), /no field 'broker'; did you mean brokers\?/)
  await assert.rejects(start({ topics: ['orders', 'payments:x'] }), /payments:x: expected NAME or NAME:PARTITIONS/)
})

test('a command that is not there is explained', async () => {
  await assert.rejects(start({ command: '/nonexistent/txnsim' }), /pip install/)
})

test('Ctrl-C in a test that hangs tells what happened', async () => {
  const program = `
    import { drop, start } from '${new URL('../index.mjs', import.meta.url)}'
    const cluster = await start({ brokers: 1 })
    await cluster.faults.arm({ id: 'seen', point: 'client.request', api: 'EndTxn', action: drop() })
    console.error('READY')
    setInterval(() => {}, 1000)
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: ['ignore', 'ignore', 'pipe'] })
  let output = ''
  for await (const chunk of child.stderr.setEncoding('utf8')) {
    const wasReady = output.includes('READY')
    output += chunk
    if (!wasReady && output.includes('READY')) child.kill('SIGINT')
  }
  assert.match(output, /txnsim: faults\nseen: 0 matched/)
})
