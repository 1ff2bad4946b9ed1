// The control port of a simulator, whoever has started it. The document of all of it is at /openapi.json.

const STEP_MS = 10_000

/** A refusal; its message says what to do instead. */
export class TxnsimError extends Error {
  constructor (message, { status, body } = {}) {
    super(message)
    this.name = 'TxnsimError'
    this.status = status
    this.body = body
  }
}

// What a fault does; docs/faults.md has all of them.

export const hold = () => ({ do: 'hold' })
export const delay = ms => ({ do: 'delay', delay_ms: ms })
export const drop = () => ({ do: 'drop' })
/** Answers with an error of Kafka's, for instance NOT_COORDINATOR. */
export const fail = error => ({ do: 'error', error })

/**
 * A client of the control port at that address, for instance http://127.0.0.1:9080. Where the port wants a token, it is that
 * of the environment's TXNSIM_TOKEN unless another is given.
 */
export async function connect (url, { token = process.env.TXNSIM_TOKEN } = {}) {
  const client = new Client()
  client.attach(url, (await client.ask('GET', '/healthz', { url })).bootstrap, token)
  return client
}

export class Client {
  url
  bootstrap
  faults = new Faults(this)
  #token

  attach (url, bootstrap, token) {
    this.url = url.replace(/\/$/, '')
    this.bootstrap = bootstrap
    this.#token = token
  }

  get #headers () { return this.#token ? { authorization: `Bearer ${this.#token}` } : {} }

  /** The addresses of bootstrap one by one, as clients take them. */
  get brokers () { return this.bootstrap.split(',') }

  /** Asks for anything that this helper has no method for. */
  async ask (method, path, { body, url = this.url } = {}) {
    const response = await fetch(url + path, {
      method,
      headers: this.#headers,
      ...(body !== undefined && { body: JSON.stringify(body) })
    })
    const text = await response.text()
    const content = /json/.test(response.headers.get('content-type') ?? '') ? JSON.parse(text) : text
    if (!response.ok) {
      // Who has waited in vain is told what happened meanwhile.
      const story = response.status === 408 ? '\n' + await this.report() : ''
      throw new TxnsimError((content.error ?? text) + story, { status: response.status, body: content })
    }
    return content
  }

  /** What happened, for people: the story, what unfinished transactions wait for, the fault rules and their hits. */
  async report () { return await this.ask('GET', '/api/v1/report') }

  // Topics, brokers, clock

  async createTopic (name, { partitions, configs } = {}) {
    return await this.ask('POST', '/api/v1/topics', { body: { name, partitions, configs } })
  }

  /** A topic with the offsets of every replica. */
  async topic (name) {
    return await this.ask('GET', `/api/v1/topics/${encodeURIComponent(name)}`)
  }

  async killBroker (id, { loseUnflushed = false } = {}) {
    return await this.ask('POST', `/api/v1/brokers/${id}/kill`, { body: { lose_unflushed: loseUnflushed } })
  }

  async stopBroker (id) { return await this.ask('POST', `/api/v1/brokers/${id}/stop`) }

  async startBroker (id) { return await this.ask('POST', `/api/v1/brokers/${id}/start`) }

  async moveLeader (topic, partition, leader) {
    return await this.ask('POST', '/api/v1/leaders', { body: { topic, partition, leader } })
  }

  /**
   * Transaction timeouts and expiry go by the cluster clock; what a fault has lost between brokers times out by it too.
   *
   * @param {number|string} duration whole milliseconds, or a text such as '2m'
   */
  async advanceClock (duration) {
    return await this.ask('POST', '/api/v1/clock', { body: { advance_ms: duration } })
  }

  // Between tests

  /** Names the present state: topics, configs, features; no records. */
  async snapshot (name) { return await this.ask('POST', '/api/v1/snapshots', { body: { name } }) }

  /**
   * Makes it a fresh cluster on the same ports, in milliseconds. Close your clients before: whoever connects again meets
   * the new one. Throws if a fault that was armed has never struck.
   */
  async reset (to = 'start') {
    await this.faults.verify()
    return await this.ask('POST', '/api/v1/reset', { body: { to } })
  }

  // Transactions

  async transactions () { return await this.ask('GET', '/api/v1/transactions') }

  async transaction (id) {
    return await this.ask('GET', `/api/v1/transactions/${encodeURIComponent(id)}`)
  }

  /** Waits until a transactional id is in one of these states; if it is in none by then, the error says what it waits for. */
  async waitForTransaction (id, states, { timeoutMs } = {}) {
    const query = new URLSearchParams([['transactional_id', id], ...[states].flat().map(state => ['state', state])])
    if (timeoutMs !== undefined) query.append('timeout_ms', timeoutMs)
    return await this.ask('GET', `/api/v1/transaction-wait?${query}`)
  }

  /** Transactions that are open on partitions: alive, decided or hanging. */
  async openTransactions (verdict) {
    return await this.ask('GET', '/api/v1/open-transactions' + (verdict ? `?verdict=${verdict}` : ''))
  }

  /** Throws if a transaction is open that no marker will ever end; the error names each, why, and what ends it. */
  async assertNoHangingTransactions () { await this.ask('GET', '/api/v1/assertions/no-hanging-transactions') }

  // Exactly once

  /** The values that a read_committed reader gets, by partition and offset; null for a record without one. */
  async committed (topic, { encoding = 'text' } = {}) {
    return await this.ask('GET', `/api/v1/topics/${encodeURIComponent(topic)}/committed?encoding=${encoding}`)
  }

  /**
   * Throws unless everything in the input is in the output once, and nothing else is; the error names values that are missing,
   * duplicates, and values of aborted input. Both are a topic (a string), whose committed records count, or values.
   */
  async assertExactlyOnce (input, output) {
    const body = { input: encoded(input), output: encoded(output), encoding: 'base64' }
    await this.ask('POST', '/api/v1/assertions/exactly-once', { body })
  }

  history (who) { return new History(this, who) }

  // Scenarios

  /** Plays a scenario, by name or alias ({ name }) or as text ({ yaml }), and waits for its end. */
  async runScenario (scenario, { timeoutMs = 300_000 } = {}) {
    const body = typeof scenario === 'string' ? { name: scenario } : scenario
    const giveUp = Date.now() + timeoutMs
    let result = await this.ask('POST', `/api/v1/runs?wait_ms=${STEP_MS}`, { body })
    while (result.state === 'running') {
      if (Date.now() > giveUp) throw new TxnsimError(`${result.scenario} has not ended within ${timeoutMs} ms`)
      result = await this.ask('GET', `/api/v1/runs/${result.id}?wait_ms=${STEP_MS}`)
    }
    if (result.state !== 'done') throw new TxnsimError(`${result.scenario}: ${result.error}`, { body: result })
    return result
  }

  // Events

  /** Every event from now on, of these kinds if some are given; one of kind `lost` says how many were. */
  async * events ({ kinds = [], nodes = [], signal } = {}) {
    const query = new URLSearchParams([...kinds.map(kind => ['kind', kind]), ...nodes.map(node => ['node', node])])
    const response = await fetch(`${this.url}/api/v1/events?${query}`, { signal, headers: this.#headers })
    if (!response.ok) throw new TxnsimError(await response.text(), { status: response.status })
    let text = ''
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      const blocks = (text + chunk).split('\n\n')
      text = blocks.pop()
      for (const block of blocks) {
        const fields = Object.fromEntries(block.split('\n').map(line => [
          line.slice(0, line.indexOf(': ')), line.slice(line.indexOf(': ') + 2)
        ]))
        if (fields.data !== undefined) yield { k: fields.event, ...JSON.parse(fields.data) }
      }
    }
  }
}

class Faults {
  #client

  constructor (client) { this.#client = client }

  /** Puts rules in force, all of them or none; warns of one that can strike nothing. */
  async arm (...rules) {
    const armed = await this.#client.ask('POST', '/api/v1/faults/plan', { body: rules })
    for (const { rule, doubt } of armed) {
      if (doubt) process.emitWarning(`txnsim: the fault ${rule.id} can strike nothing: ${doubt}`)
    }
    return armed
  }

  async get (id) { return await this.#client.ask('GET', path(id)) }

  async list () { return await this.#client.ask('GET', '/api/v1/faults') }

  async waitUntilStruck (id, { times = 1, timeoutMs } = {}) {
    const query = `?struck=${times}` + (timeoutMs === undefined ? '' : `&timeout_ms=${timeoutMs}`)
    return await this.#client.ask('GET', `${path(id)}/wait${query}`)
  }

  /** Lets go what a rule holds and says how many crossings that were; it stays in force. */
  async release (id) { return (await this.#client.ask('POST', `${path(id)}/release`)).released }

  /** Takes a rule back; what it holds goes on. */
  async disarm (id) { return await this.#client.ask('DELETE', path(id)) }

  async disarmAll () { return await this.#client.ask('DELETE', '/api/v1/faults') }

  /** Throws if a rule that was armed, in force or not, has never struck: it has tested nothing. */
  async verify () { await this.#client.ask('POST', '/api/v1/faults/verify') }

  /** Begins a new account: `verify` judges only what is armed from now on, and what is in force. */
  async forget () {
    await this.#client.ask('POST', '/api/v1/faults/verify?forget=true').catch(error => {
      if (error.status !== 409) throw error
    })
  }
}

/** What the clients of a test saw, in order and in the words of docs/checkers.md; the checkers judge it. */
export class History {
  #client
  #who
  seen = []

  constructor (client, who) {
    this.#client = client
    this.#who = who
  }

  add (seen) { this.seen.push({ at_ms: Date.now(), who: this.#who, ...seen }) }

  /** Adds what an onlooker sees of a partition over the wire. */
  async look (topic, partition) {
    this.seen.push(...await this.#client.ask('POST', '/api/v1/looks', { body: { topic, partition } }))
  }

  /** What the checkers make of it: `kinds` is empty if nothing is wrong. */
  async judge () { return await this.#client.ask('POST', '/api/v1/verdicts', { body: this.seen }) }
}

/** Values as the port takes those of any bytes; a topic is left as it is. */
const encoded = topicOrValues =>
  typeof topicOrValues === 'string' ? topicOrValues : Array.from(topicOrValues, value => value === null ? null : Buffer.from(value).toString('base64'))

const path = id => `/api/v1/faults/${encodeURIComponent(id)}`
