// One producer's transactions, and what readers see of them.

import { assert, refusal, same, until } from '../lab.mjs'

export const PARTITIONS = 6

export const checks = {
  async commit (lab) {
    const driver = lab.plain()
    const topic = lab.name()
    await driver.createTopic(topic, PARTITIONS)
    same(new Set(await driver.leaders(topic)).size, await driver.brokers(), 'leading brokers')
    const producer = lab.keep(await driver.producer({ transactionalId: lab.name() }))
    await producer.begin()
    await producer.send(topic, onAll('one'))
    same(await values(driver, topic, false), Array(PARTITIONS).fill('one'), 'uncommitted')
    same(await values(driver, topic, true), [], 'committed before')
    await producer.commit()
    await shows(driver, topic, onAll('one'))
    await producer.begin()
    await producer.send(topic, onAll('two'))
    await producer.commit()
    await shows(driver, topic, [...onAll('one'), ...onAll('two')])
    const seen = await driver.read(topic, { committed: true })
    // Each partition has a record, its marker, a record and its marker.
    const offsets = seen.map(({ partition, offset }) => `${partition}/${offset}`)
    const wanted = [...Array(PARTITIONS).keys()].flatMap(at => [`${at}/0`, `${at}/2`])
    same(offsets, wanted, 'offsets')
  },

  async abort (lab) {
    const driver = lab.plain()
    const topic = lab.name()
    await driver.createTopic(topic, PARTITIONS)
    const producer = lab.keep(await driver.producer({ transactionalId: lab.name() }))
    await producer.begin()
    await producer.send(topic, onAll('never'))
    await producer.abort()
    await producer.begin()
    await producer.send(topic, onAll('then'))
    await producer.commit()
    await shows(driver, topic, onAll('then'))
    const everything = await values(driver, topic, false)
    same(everything, onAll('never').flatMap(() => ['never', 'then']), 'uncommitted')
  },

  async 'read-committed' (lab) {
    const driver = lab.plain()
    const topic = lab.name()
    await driver.createTopic(topic, 1)
    const producer = lab.keep(await driver.producer({ transactionalId: lab.name() }))
    const other = lab.keep(await driver.producer({}))
    await other.send(topic, on(0, 'before'))
    await producer.begin()
    await producer.send(topic, on(0, 'open'))
    await other.send(topic, on(0, 'behind'))
    same(await values(driver, topic, true), ['before'], 'committed while open')
    same(await values(driver, topic, false), ['before', 'open', 'behind'], 'uncommitted')
    await producer.abort()
    await shows(driver, topic, [...on(0, 'before'), ...on(0, 'behind')])
    await producer.begin()
    await producer.send(topic, on(0, 'next'))
    await other.send(topic, on(0, 'last'))
    same(await values(driver, topic, true), ['before', 'behind'], 'committed while open again')
    await producer.commit()
    const all = ['before', 'behind', 'next', 'last'].flatMap(value => on(0, value))
    await shows(driver, topic, all)
  },

  async fence (lab) {
    const driver = lab.plain()
    const topic = lab.name()
    await driver.createTopic(topic, PARTITIONS)
    const old = lab.keep(await driver.producer({ transactionalId: lab.name() }))
    await old.begin()
    await old.send(topic, onAll('old'))
    const newer = lab.keep(await driver.producer({ transactionalId: lab.name() }))
    await newer.begin()
    await newer.send(topic, onAll('new'))
    const error = await refusal('a commit of the fenced producer', old.commit())
    assert(driver.isFenced(error), `not the library's error for it: ${driver.described(error)}`)
    await newer.commit()
    await shows(driver, topic, onAll('new'))
    await newer.begin()
    await newer.send(topic, onAll('newer'))
    await newer.commit()
    await shows(driver, topic, [...onAll('new'), ...onAll('newer')])
  },

  async timeout (lab) {
    const driver = lab.plain()
    const topic = lab.name()
    await driver.createTopic(topic, 2)
    const transactionalId = lab.name()
    const producer = lab.keep(await driver.producer({ transactionalId, timeoutMs: 3_000 }))
    const other = lab.keep(await driver.producer({}))
    await producer.begin()
    await producer.send(topic, [...on(0, 'late'), ...on(1, 'late')])
    const behind = [...on(0, 'behind'), ...on(1, 'behind')]
    await other.send(topic, behind)
    await shows(driver, topic, behind)
    const error = await refusal('a commit after the timeout', producer.commit())
    assert(driver.isTimedOut(error), `not the library's error for it: ${driver.described(error)}`)
    same(await values(driver, topic, true), ['behind', 'behind'], 'committed')
    const again = lab.keep(await driver.producer({ transactionalId }))
    await again.begin()
    await again.send(topic, on(0, 'again'))
    await again.commit()
    await shows(driver, topic, [on(0, 'behind'), on(0, 'again'), on(1, 'behind')].flat())
    const everything = await values(driver, topic, false)
    same(everything, ['late', 'behind', 'again', 'late', 'behind'], 'uncommitted')
  }
}

/** One record. */
export function on (partition, value) {
  return [{ partition, value: Buffer.from(value) }]
}

/** The same value on every partition. */
export function onAll (value) {
  return [...Array(PARTITIONS).keys()].flatMap(partition => on(partition, value))
}

/** The values that a reader gets, partition by partition. */
export async function values (driver, topic, committed) {
  return (await driver.read(topic, { committed })).map(({ value }) => `${value}`)
}

/** A read_committed reader comes to see these records, each once, and no others.
 *
 * From transactions v2 on a commit is answered before its markers are written (KIP-890).
 */
export async function shows (driver, topic, records) {
  const text = ({ partition, value }) => `${partition}: ${value}`
  let seen = []
  await until(`${records.length} committed records of ${topic}`, async () => {
    seen = await driver.read(topic, { committed: true })
    return seen.length >= records.length
  })
  same(seen.map(text).sort(), records.map(text).sort(), 'committed')
}
