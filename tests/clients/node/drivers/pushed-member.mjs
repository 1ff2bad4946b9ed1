// A group member of a library that pushes batches, turned into one that is asked for them.
//
// The library's handler waits until the batch that it gave has been dealt with, so that a batch
// and its transaction lie between two of the library's own steps, as in a program of its users.
// Meanwhile its heartbeat tells whether the group is being rebalanced.

import { pause, until } from '../lab.mjs'

const BEAT_MS = 50

export class PushedMember {
  leave = async () => {}
  hasJoined = false

  #waiting
  #given = []
  #disturbed = false
  #stopped = false
  #error
  #partitions = []

  constructor (group, topic) {
    this.group = group
    this.topic = topic
  }

  // Asked by checks

  /** The records of the next batch; those that were taken before are dealt with. None at the end. */
  async take () {
    this.#release()
    while (!this.#stopped) {
      if (this.#error) throw this.#error
      const next = this.#given.shift()
      if (next) {
        this.#waiting = next
        return next.records
      }
      await pause(5)
    }
    return []
  }

  /** Until a heartbeat has told that the group is being rebalanced. */
  async disturbed () {
    await until('a rebalance', async () => this.#disturbed)
  }

  partitions () {
    return this.#partitions
  }

  async stop () {
    this.#stopped = true
    this.#release()
    this.#given.splice(0).forEach(({ done }) => done())
  }

  async close () {
    await this.stop()
    await this.leave()
  }

  // Told by the library

  assigned (partitions) {
    this.hasJoined = true
    this.#disturbed = false
    this.#partitions = partitions
  }

  /** It will give no more. */
  fail (error) {
    this.#error = error
  }

  /** Give a batch, and wait until it has been dealt with. */
  async give (records, heartbeat, isRebalancing) {
    if (this.#stopped || records.length === 0) return
    let isDone = false
    this.#given.push({ records, done: () => { isDone = true } })
    while (!isDone) {
      await pause(BEAT_MS)
      if (this.#disturbed) continue
      try {
        await heartbeat()
      } catch (error) {
        if (!isRebalancing(error)) throw error
        this.#disturbed = true
      }
    }
  }

  #release () {
    this.#waiting?.done()
    this.#waiting = undefined
  }
}
