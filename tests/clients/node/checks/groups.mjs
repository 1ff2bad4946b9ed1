// Consume, transform, produce: a group's positions are part of the transaction.

import { assert, same, until } from '../lab.mjs'
import { shows } from './transactions.mjs'

const INPUTS = 12
const PARTITIONS = 4

export const checks = {
  async transform (lab) {
    const driver = lab.plain()
    const [input, output, group] = ['in', 'out', 'group'].map(suffix => lab.name(suffix))
    await driver.createTopic(input, 1)
    await driver.createTopic(output, 1)
    const feeder = lab.keep(await driver.producer({}))
    await feeder.send(input, numbered(0, INPUTS, 1))
    const member = lab.keep(await driver.member(group, input))
    const producer = lab.keep(await driver.producer({ transactionalId: lab.name() }))
    const position = async () => (await driver.positions(group, input, 1))[0]
    same(await position(), -1, 'position at first')

    const backlog = []
    for (let round = 0, next = 0; next < INPUTS; round++) {
      while (backlog.length === 0) backlog.push(...(await member.take()))
      const records = backlog.slice(0, 4)
      await producer.begin()
      await producer.send(output, transformed(records))
      await producer.sendOffsets(member, records)
      if (round === 1) {
        // Done again by the next one.
        await producer.abort()
        await shows(driver, output, transformed(numbered(0, next, 1)))
        same(await position(), next, 'position after an abort')
        continue
      }
      await producer.commit()
      backlog.splice(0, records.length)
      next += records.length
      await until(`position ${next}`, async () => (await position()) === next)
    }
    await shows(driver, output, transformed(numbered(0, INPUTS, 1)))
    same(await position(), INPUTS, 'position at last')
  },

  async rebalance (lab) {
    const driver = lab.plain()
    const [input, output, group] = ['in', 'out', 'group'].map(suffix => lab.name(suffix))
    await driver.createTopic(input, PARTITIONS)
    await driver.createTopic(output, 1)
    const feeder = lab.keep(await driver.producer({}))
    await feeder.send(input, numbered(0, INPUTS, PARTITIONS))
    const first = await Worker.start(lab, driver, { group, input, output, name: 'first' })
    const records = await first.member.take()
    await first.producer.begin()
    await first.producer.send(output, transformed(records, 'first'))
    const second = await Worker.start(lab, driver, { group, input, output, name: 'second' })
    await first.member.disturbed()
    if (await first.end(records)) {
      // A library that does not ask for stable positions may take one before its marker is written.
      const sum = async () => (await driver.positions(group, input, PARTITIONS)).reduce((all, at) => all + Math.max(at, 0), 0)
      await until('positions of the first', async () => (await sum()) >= records.length)
    }
    const workers = [first.work(), second.work()]
    await until('partitions for the second member', async () => second.member.partitions().length > 0)
    await feeder.send(input, numbered(INPUTS, 2 * INPUTS, PARTITIONS))
    await until('all outputs', async () => {
      for (const worker of [first, second]) if (worker.error) throw worker.error
      return (await driver.read(output, { committed: true })).length >= 2 * INPUTS
    })
    await Promise.all([first, second].map(worker => worker.stop()))
    await Promise.all(workers)

    const seen = await driver.read(output, { committed: true })
    const outputs = seen.map(({ value }) => `${value}`.split(' ')[0]).sort()
    const wanted = transformed(numbered(0, 2 * INPUTS, PARTITIONS)).map(({ value }) => `${value}`)
    same(outputs, wanted.sort(), 'outputs')
    same(new Set(seen.map(({ value }) => `${value}`.split(' ')[1])).size, 2, 'members at work')
    // Their marker is another one than the outputs'.
    const ends = String(Array(PARTITIONS).fill((2 * INPUTS) / PARTITIONS))
    await until('positions at the ends', async () => String(await driver.positions(group, input, PARTITIONS)) === ends)
  }
}

/** A member of the group with a producer of its own. */
class Worker {
  static async start (lab, driver, { group, input, output, name }) {
    const worker = new Worker()
    Object.assign(worker, { driver, output, name, stopped: false })
    worker.member = lab.keep(await driver.member(group, input))
    worker.producer = lab.keep(await driver.producer({ transactionalId: lab.name(name) }))
    return worker
  }

  /** Transactions until it is told to stop; what goes wrong is kept for the check. */
  async work () {
    try {
      while (!this.stopped) {
        const records = await this.member.take()
        if (records.length === 0) continue
        await this.producer.begin()
        await this.producer.send(this.output, transformed(records, this.name))
        await this.end(records)
      }
    } catch (error) {
      this.error = error
    }
  }

  /** The commit belongs to the member's generation, or is refused and nothing has happened; whether it committed. */
  async end (records) {
    try {
      await this.producer.sendOffsets(this.member, records)
    } catch (error) {
      const { driver } = this
      assert(driver.isStaleMember(error), `not the error of a stale member: ${driver.described(error)}`)
      await this.producer.abort()
      return false
    }
    await this.producer.commit()
    return true
  }

  async stop () {
    this.stopped = true
    await this.member.stop()
  }
}

function numbered (first, end, partitions) {
  return [...Array(end - first).keys()].map(at => ({
    partition: (first + at) % partitions,
    value: Buffer.from(String(first + at).padStart(3, '0'))
  }))
}

function transformed (records, name) {
  return records.map(({ value }) => ({
    partition: 0,
    value: Buffer.from(`out-${value}${name ? ` ${name}` : ''}`)
  }))
}
