// What every check gets: names of its own, drivers that are closed afterwards, patience.

import { readFileSync } from 'node:fs'
import path from 'node:path'
import { inspect } from 'node:util'

export const PATIENCE_MS = 30_000
const POLL_MS = 20
const LOG_LINES = 60
const LINE = 600

/** Asserted and not so. */
export class CheckError extends Error {
  name = 'CheckError'
}

/** A check's surroundings. */
export class Lab {
  #Driver
  #check
  #open = []
  #log = []

  constructor (Driver, check) {
    this.#Driver = Driver
    this.#check = check
    this.level = Number(process.env.TXNSIM_TRANSACTION_VERSION ?? '2')
  }

  /** A name that no other check and no other run has. */
  name (suffix = '') {
    return `${process.env.TXNSIM_RUN}-${this.#check}${suffix && `-${suffix}`}`
  }

  /** The library, pointed at the plain listeners. */
  plain () {
    return this.driver(addresses('TXNSIM_BOOTSTRAP'))
  }

  /** The library, pointed at some listeners; closed at the end of the check. */
  driver (bootstrap, security = {}) {
    return this.keep(new this.#Driver(bootstrap, security, line => this.#log.push(line)))
  }

  /** Closed at the end of the check, the last one first. */
  keep (closable) {
    this.#open.push(closable)
    return closable
  }

  async close () {
    while (this.#open.length > 0) {
      await withPatience(this.#open.pop().close(), 'closing')
    }
  }

  /** The last words of the library. */
  log () {
    return this.#log.slice(-LOG_LINES).join('\n')
  }
}

/** Addresses from the environment. */
export function addresses (variable) {
  const found = process.env[variable]
  assert(found, `${variable} is not set`)
  return found.split(',')
}

/** A file of the demonstration's security. */
export function securityFile (name) {
  return readFileSync(path.join(process.env.TXNSIM_SECURITY_DIR ?? '.', name), 'utf8')
}

/** Ask until it holds; the answer. */
export async function until (what, ask) {
  const deadline = Date.now() + PATIENCE_MS
  for (;;) {
    const answer = await withPatience(ask(), what)
    if (answer) return answer
    assert(Date.now() < deadline, `${what}: not within ${PATIENCE_MS} ms`)
    await pause(POLL_MS)
  }
}

/** Wait for an answer, not forever. */
export async function withPatience (promise, what) {
  let timer
  const late = new Promise((_resolve, reject) => {
    const error = new CheckError(`${what}: no answer within ${PATIENCE_MS} ms`)
    timer = setTimeout(() => reject(error), PATIENCE_MS)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** The error that this ends with; a check fails if there is none. */
export async function refusal (what, promise) {
  try {
    await withPatience(promise, what)
  } catch (error) {
    if (error instanceof CheckError) throw error
    return error
  }
  throw new CheckError(`${what} was not refused`)
}

export function assert (holds, what) {
  if (!holds) throw new CheckError(shortened(what))
}

/** Both look the same, whatever they are made of. */
export function same (actual, wanted, what) {
  const [seen, hoped] = [actual, wanted].map(one => inspect(one, { depth: 9, breakLength: Infinity }))
  assert(seen === hoped, `${what}: ${shortened(seen)} instead of ${shortened(hoped)}`)
}

/** A moment between two questions. */
export function pause (ms) {
  return new Promise(resolve => setTimeout(resolve, ms))
}

function shortened (text) {
  return text.length > LINE ? `${text.slice(0, LINE)}…` : text
}
