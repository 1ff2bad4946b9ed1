// A simulated cluster in a container, for Testcontainers for Node.js, which is yours to install: npm install testcontainers.
//
// A broker tells its clients where to come back to, and Testcontainers publishes ports that are not known before the container
// runs. So the container first waits for a script, which is copied into it once the ports are known and which starts the
// brokers with these addresses (Testcontainers' own module for Kafka does it in the same way).

import { randomUUID } from 'node:crypto'

import {
  AbstractStartedContainer, BoundPorts, GenericContainer, Wait, getContainerRuntimeClient, waitForContainer
} from 'testcontainers'

import { TxnsimError, connect } from './client.mjs'
import { topicsOf } from './process.mjs'

const KAFKA_PORT = 9092
const CONTROL_PORT = 9080
const STARTER = '/tmp/txnsim-start.sh'
const SCRIPT_MODE = 0o755
const START_TIMEOUT_MS = 90_000
const READ_TIMEOUT_MS = 1_000 // and the pause between two attempts
const OPTIONS = ['brokers', 'topics', 'transactionVersion', 'asVersion', 'settings', 'controlToken', 'faultsMayMiss']

export class TxnsimContainer extends GenericContainer {
  #brokers
  #token
  #faultsMayMiss
  #wait = Wait.forHttp('/healthz', CONTROL_PORT)
    .withReadTimeout(READ_TIMEOUT_MS)
    .withStartupTimeout(START_TIMEOUT_MS)

  /**
   * @param {string} image as built from the Containerfile
   * @param {object} options see testcontainers.d.ts
   */
  constructor (image = 'txnsim:latest', options = {}) {
    super(image)
    const strange = Object.keys(options).filter(name => !OPTIONS.includes(name))
    if (strange.length > 0) {
      throw new TxnsimError(`no option ${strange.map(name => `'${name}'`).join(', ')}; there are ${OPTIONS.join(', ')}`)
    }
    const { brokers = 3, controlToken = randomUUID(), faultsMayMiss = false } = options
    if (!Number.isInteger(brokers) || brokers < 1) {
      throw new TxnsimError(`a cluster needs at least one broker, not ${brokers}`)
    }
    this.#brokers = brokers
    this.#token = controlToken
    this.#faultsMayMiss = faultsMayMiss
    this.withEntrypoint(['sh'])
    this.withCommand(['-c', `while [ ! -f ${STARTER} ]; do sleep 0.05; done; exec sh ${STARTER}`])
    this.withExposedPorts(...portsOf(brokers), CONTROL_PORT)
    this.withEnvironment(environmentOf(options, brokers, controlToken))
    super.withWaitStrategy(NO_WAIT)
  }

  /** What to wait for once the ports are told; the health of the cluster unless given. */
  withWaitStrategy (strategy) {
    this.#wait = strategy
    return this
  }

  /** Starts it, and waits until every broker serves. */
  async start () {
    const started = new StartedTxnsimContainer(await super.start(), this.#brokers, this.#token)
    await started.connect({ asks: !this.#faultsMayMiss })
    return started
  }

  /** Of Testcontainers: the container runs, and its ports are known. */
  async containerStarted (container, inspected) {
    const addresses = addressesOf(container, this.#brokers)
    await container.copyContentToContainer([{ content: scriptOf(addresses), target: STARTER, mode: SCRIPT_MODE }])
    const client = await getContainerRuntimeClient()
    const ports = BoundPorts.fromInspectResult(client.info.containerRuntime.hostIps, inspected).filter(this.exposedPorts)
    const wait = this.#wait
    if (this.startupTimeoutMs !== undefined) wait.withStartupTimeout(this.startupTimeoutMs)
    await waitForContainer(client, client.container.getById(container.getId()), wait, ports)
  }
}

/** A cluster that runs. */
export class StartedTxnsimContainer extends AbstractStartedContainer {
  #brokers
  #token
  #client
  #asks = false

  constructor (started, brokers, token) {
    super(started)
    this.#brokers = brokers
    this.#token = token
  }

  async connect ({ asks }) {
    this.#client = await connect(this.controlUrl, { token: this.#token })
    this.#asks = asks
  }

  /** Stops and removes it; throws if a fault that was armed has never struck, or if the control port does not answer. */
  async stop (options) {
    const asks = this.#asks
    this.#asks = false
    const failure = asks ? await this.#neverStruck() : undefined
    const stopped = await super.stop(options)
    if (failure !== undefined) throw failure
    return stopped
  }

  async #neverStruck () {
    try {
      await this.#client.faults.verify()
    } catch (error) {
      if (error instanceof TxnsimError) return error
      const reason = error.cause?.message ?? error.message
      return new TxnsimError(`whether every fault has struck can't be asked: ${reason}. ` +
        'If the container is to end before its test, give it faultsMayMiss')
    }
  }

  /** Where clients connect to (bootstrap.servers). */
  get bootstrap () { return addressesOf(this, this.#brokers).join(',') }

  /** The addresses of bootstrap one by one, as clients take them. */
  get brokers () { return addressesOf(this, this.#brokers) }

  /** The control port: /openapi.json tells what it can do. */
  get controlUrl () { return `http://${this.getHost()}:${this.getMappedPort(CONTROL_PORT)}` }

  /** What the control port wants: Authorization: Bearer TOKEN. */
  get controlToken () { return this.#token }

  /** Arms faults, advances the clock, looks at transactions: the client that start() gives for a process. */
  get client () { return this.#client }
}

// The container waits for its script, not we for it.
const NO_WAIT = {
  waitUntilReady: async () => {},
  withStartupTimeout () { return this },
  isStartupTimeoutSet: () => true,
  getStartupTimeout: () => 0
}

const portsOf = brokers => Array.from({ length: brokers }, (_, number) => KAFKA_PORT + number)

const addressesOf = (container, brokers) =>
  portsOf(brokers).map(port => `${container.getHost()}:${container.getMappedPort(port)}`)

function environmentOf ({ topics, transactionVersion, asVersion, settings = {} }, brokers, token) {
  const environment = {
    TXNSIM_BROKERS: brokers,
    TXNSIM_PORT: KAFKA_PORT,
    TXNSIM_HTTP_PORT: CONTROL_PORT,
    TXNSIM_TOKEN: token
  }
  const named = topicsOf(topics)
  if (named.length > 0) environment.TXNSIM_TOPICS = named.join(',')
  if (transactionVersion !== undefined) environment.TXNSIM_TRANSACTION_VERSION = transactionVersion
  if (asVersion !== undefined) environment.TXNSIM_AS_VERSION = asVersion
  for (const [name, value] of Object.entries(settings)) environment[variableOf(name)] = value
  return Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, String(value)]))
}

/** The environment variable that stands for a setting, as in the image apache/kafka. */
export const variableOf = setting =>
  'KAFKA_' + setting.replaceAll('_', '__').replaceAll('-', '___').replaceAll('.', '_').toUpperCase()

export const scriptOf = addresses =>
  `#!/bin/sh\nexport TXNSIM_ADVERTISED='${addresses.join(',')}'\nexec python -m txnsim.testing.container --ready-coordinators\n`
