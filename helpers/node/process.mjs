// The simulator as a process: started with free ports, ended with the test, however the test ends.

import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

import { Client, TxnsimError } from './client.mjs'

const START_TIMEOUT_MS = 90_000
const STOP_TIMEOUT_MS = 60_000
const POLL_MS = 10
const TAIL_CHARACTERS = 4_000

/**
 * Starts a cluster of its own.
 *
 * @param {object} options see index.d.ts
 * @param {object} [t] the context of a test of node:test or vitest: the cluster is stopped after it
 */
export async function start (options = {}, t = undefined) {
  const after = afterOf(t) // before anything is started
  const directory = await mkdtemp(join(tmpdir(), 'txnsim-'))
  const readyFile = join(directory, 'ready.json')
  const command = options.command ?? process.env.TXNSIM ?? 'txnsim'
  // Its standard input is ours: when this process ends, so does the simulator (--until-eof).
  const child = spawn(command, await commandLine(options, directory, readyFile), {
    stdio: ['pipe', 'pipe', 'pipe']
  })
  const cluster = new Cluster(child, directory)
  after?.(async () => {
    if (hasFailed(t) && cluster.url !== undefined) console.error(await cluster.report())
    await cluster.stop()
  })
  // Ctrl-C in a test that hangs: it tells what happened, as one that has failed.
  const interrupted = async () => {
    if (cluster.url !== undefined) console.error(await cluster.report().catch(error => error.message))
    await cluster.end()
    process.exit(130)
  }
  process.once('SIGINT', interrupted)
  cluster.whenEnded(() => process.removeListener('SIGINT', interrupted))
  try {
    await cluster.awaitReady(readyFile)
  } catch (error) {
    await cluster.end()
    throw error
  }
  return cluster
}

/** What calls back after a test: `after` of node:test, `onTestFinished` of vitest. */
function afterOf (t) {
  if (t === undefined) return undefined
  const after = t.after ?? t.onTestFinished
  if (typeof after === 'function') return after.bind(t)
  throw new TxnsimError('start(options, t): t is no context of a test of node:test or vitest. ' +
    'With another runner leave it out, and call stop() of the cluster after the test.')
}

/** Node.js tells it from version 21.7 on. */
const hasFailed = t => t.passed === false || t.task?.result?.state === 'fail'

async function commandLine (options, directory, readyFile) {
  const commandArguments = ['serve', '--port', '0', '--http', '0', '--until-eof', '--json', '--ready-file', readyFile, '--ready-coordinators']
  commandArguments.push('--brokers', String(options.brokers ?? 3), '--trace', options.trace ?? 'brief')
  if (options.transactionVersion !== undefined) {
    commandArguments.push('--transaction-version', String(options.transactionVersion))
  }
  if (options.asVersion !== undefined) commandArguments.push('--as-version', options.asVersion)
  for (const topic of topicsOf(options.topics)) commandArguments.push('--topic', topic)
  // What is unknown here is handed on: the simulator refuses it, and says what was meant.
  const { brokers, trace, transactionVersion, asVersion, topics, command, ...otherOptions } = options
  if (Object.keys(otherOptions).length > 0) {
    const file = join(directory, 'options.yaml')
    await writeFile(file, JSON.stringify(otherOptions)) // JSON is YAML
    commandArguments.push('--config', file)
  }
  return commandArguments
}

export const topicsOf = topics => {
  if (typeof topics === 'string') return [topics]
  if (Array.isArray(topics)) return topics
  return Object.entries(topics ?? {}).map(([name, partitions]) => `${name}:${partitions}`)
}

/** A simulator that this process has started. */
export class Cluster extends Client {
  #child
  #directory
  #said = ''
  #ended
  #isStopped = false

  constructor (child, directory) {
    super()
    this.#child = child
    this.#directory = directory
    const listen = chunk => { this.#said = (this.#said + chunk).slice(-TAIL_CHARACTERS) }
    child.stdout.setEncoding('utf8').on('data', listen)
    child.stderr.setEncoding('utf8').on('data', listen)
    child.stdin.on('error', () => {}) // it has gone before us
    this.#ended = new Promise(resolve => {
      child.on('error', error => resolve(`could not be started: ${error.message}; install it ` +
        "(pip install '.[http]' in a checkout of txnsim), or name it in TXNSIM"))
      child.on('exit', (code, signal) => resolve(`ended with ${signal ?? code}`))
    })
  }

  /** Calls back when the simulator has ended. */
  whenEnded (call) { this.#ended.then(call) }

  /** The end of what the simulator has printed. */
  get said () { return this.#said }

  async awaitReady (readyFile) {
    let failure
    this.#ended.then(reason => { failure = reason })
    const giveUp = Date.now() + START_TIMEOUT_MS
    while (true) {
      const content = await readFile(readyFile, 'utf8').catch(() => undefined)
      if (content !== undefined) {
        const { http, bootstrap, token } = JSON.parse(content)
        this.attach(http, bootstrap, token)
        return
      }
      if (failure === undefined && Date.now() > giveUp) failure = `was not ready in ${START_TIMEOUT_MS} ms`
      if (failure !== undefined) throw new TxnsimError(`txnsim ${failure}\n${this.#said}`)
      await pause(POLL_MS)
    }
  }

  /** Stops the simulator; throws if a fault that was armed has never struck. */
  async stop () {
    if (this.#isStopped) return
    this.#isStopped = true
    let failure
    try {
      if (this.url !== undefined) await this.faults.verify()
    } catch (error) {
      failure = error
    }
    await this.end()
    if (failure !== undefined) throw failure
  }

  async end () {
    this.#isStopped = true
    this.#child.kill('SIGTERM')
    this.#child.stdin.end()
    const patience = setTimeout(() => this.#child.kill('SIGKILL'), STOP_TIMEOUT_MS)
    await this.#ended
    clearTimeout(patience)
    await rm(this.#directory, { recursive: true, force: true })
  }

  async [Symbol.asyncDispose ?? Symbol.for('asyncDispose')] () { await this.stop() }
}
