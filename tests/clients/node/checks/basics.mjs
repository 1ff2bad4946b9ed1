// Producing without transactions.

import { same } from '../lab.mjs'

const BATCHES = 5
const RECORDS = 20

export const checks = {
  async produce (lab) {
    const driver = lab.plain()
    for (const codec of driver.codecs) {
      const topic = lab.name(codec)
      await driver.createTopic(topic, 1)
      const producer = lab.keep(await driver.producer({ codec }))
      const records = recordsOfAllKinds(driver)
      same(await producer.send(topic, records), [{ partition: 0, offset: 0 }], 'base offset')
      const seen = await driver.read(topic, { committed: true })
      same(seen.map(({ offset }) => offset), records.map((_record, index) => index), 'offsets')
      same(seen.map(({ offset, ...record }) => record), records, `records through ${codec}`)
    }
  },

  async idempotent (lab) {
    const driver = lab.plain()
    const topic = lab.name()
    await driver.createTopic(topic, 3)
    const producer = lab.keep(await driver.producer({ idempotent: true }))
    for (let batch = 0; batch < BATCHES; batch++) {
      const records = [0, 1, 2].flatMap(partition => batchOf(partition, batch))
      const offset = batch * RECORDS
      const wanted = [0, 1, 2].map(partition => ({ partition, offset }))
      same(await producer.send(topic, records), wanted, 'base offsets')
    }
    const seen = await driver.read(topic, { committed: true })
    for (const partition of [0, 1, 2]) {
      const mine = seen.filter(record => record.partition === partition)
      same(mine.map(({ offset }) => offset), [...Array(BATCHES * RECORDS).keys()], 'offsets')
      const wanted = [...Array(BATCHES).keys()].flatMap(batch => batchOf(partition, batch))
      same(mine.map(({ value }) => `${value}`), wanted.map(({ value }) => `${value}`), 'values')
    }
  }
}

function batchOf (partition, batch) {
  return [...Array(RECORDS).keys()].map(number => ({
    partition,
    value: Buffer.from(`${batch}/${number}`)
  }))
}

function recordsOfAllKinds (driver) {
  const now = Date.now()
  const record = (key, value, headers, timestampMs) => ({
    partition: 0,
    key: key === null ? null : Buffer.from(key),
    value: value === null ? null : Buffer.from(value),
    headers: headers.map(([name, content]) => [name, Buffer.from(content)]),
    timestampMs
  })
  return [
    record('key', 'value', [['a', '1'], ['empty', ''], ['ü', '\u0000']], now - 86_400_123),
    record(null, 'no key', [], now),
    record(...(driver.canBeEmpty ? ['', ''] : ['short', '.']), driver.canRepeatHeaders ? [['a', '1'], ['a', '2']] : [], now - 1),
    ...(driver.canTombstones ? [record('tombstone', null, [], now + 1)] : []),
    record('long', 'long '.repeat(4_000), [], now - 999)
  ]
}
