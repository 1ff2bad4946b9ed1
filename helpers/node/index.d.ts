/** What to start; without anything three brokers at transaction.version 2. */
export interface Options {
  brokers?: number
  transactionVersion?: 0 | 1 | 2
  /** Topics to create at start: name and partitions, or 'orders' or 'orders:3', or several of these. */
  topics?: Record<string, number> | string | string[]
  /** By Kafka's names, as in server.properties. */
  settings?: Record<string, string | number | boolean>
  /** The Kafka release to behave as, for instance 3.9. */
  asVersion?: string
  trace?: 'off' | 'brief' | 'full'
  /** What to run; the environment's TXNSIM unless given, else txnsim of the PATH. */
  command?: string
}

export type Action = { do: string } & Record<string, unknown>

/** Where a fault strikes, when, and what it does; docs/faults.md has every field. */
export interface Rule {
  id: string
  point: string
  action: Action
  api?: string | number
  broker?: number
  client_id?: string
  transactional_id?: string
  topic?: string
  partition?: number
  committed?: boolean
  nth?: number
  limit?: number
  [field: string]: unknown
}

export interface Fault {
  rule: Rule
  matched: number
  struck: number
  held: number
  released: number
  in_force: boolean
  failure: string | null
  /** Why it can strike nothing in the cluster as it is. */
  doubt: string | null
}

export type Value = string | Uint8Array | null

export interface Transaction {
  transactional_id: string
  coordinator: number
  state: string
  pending_state: string | null
  producer_id: number
  producer_epoch: number
  timeout_ms: number
  start_ms: number | null
  partitions: { topic: string, partition: number }[]
  markers_owed: number
}

export interface OpenTransaction {
  topic: string
  partition: number
  producer_id: number
  producer_epoch: number
  start_offset: number
  verdict: 'alive' | 'decided' | 'hanging'
  reason: string
  transactional_id: string | null
  command: string | null
}

export interface Verdict {
  healthy: boolean
  kinds: string[]
  anomalies: { kind: string, because: string, evidence: number[] }[]
}

export interface Run {
  run: string
  mode: string
  take: string
  expected: string
  observed: string
  verdict: string[]
  because: string[]
  cured: string | null
  as_declared: boolean
}

export interface ScenarioResult {
  id: string
  scenario: string
  state: 'running' | 'done' | 'failed'
  as_declared: boolean | null
  error: string | null
  runs: Run[]
}

export interface Event {
  i?: number
  t?: number
  node?: string
  k: string
  p?: number[]
  tx?: string
  d?: unknown
  lost?: number
}

export class TxnsimError extends Error {
  status?: number
  body?: unknown
}

export interface Faults {
  arm (...rules: Rule[]): Promise<Fault[]>
  get (id: string): Promise<Fault>
  list (): Promise<Fault[]>
  waitUntilStruck (id: string, how?: { times?: number, timeoutMs?: number }): Promise<Fault>
  release (id: string): Promise<number>
  disarm (id: string): Promise<Fault>
  disarmAll (): Promise<Fault[]>
  verify (): Promise<void>
  forget (): Promise<void>
}

export class History {
  seen: Record<string, unknown>[]
  add (seen: Record<string, unknown>): void
  look (topic: string, partition: number): Promise<void>
  judge (): Promise<Verdict>
}

export class Client {
  readonly url: string
  readonly bootstrap: string
  readonly brokers: string[]
  readonly faults: Faults
  ask (method: string, path: string, how?: { body?: unknown }): Promise<any>
  /** What happened, for people: the story, what unfinished transactions wait for, the fault rules and their hits. */
  report (): Promise<string>
  createTopic (name: string, how?: { partitions?: number, configs?: Record<string, string> }): Promise<unknown>
  topic (name: string): Promise<any>
  killBroker (id: number, how?: { loseUnflushed?: boolean }): Promise<unknown>
  stopBroker (id: number): Promise<unknown>
  startBroker (id: number): Promise<unknown>
  moveLeader (topic: string, partition: number, leader: number): Promise<unknown>
  /** Whole milliseconds, or a text such as '2m'. */
  advanceClock (duration: number | string): Promise<unknown>
  snapshot (name: string): Promise<unknown>
  reset (to?: string): Promise<unknown>
  transactions (): Promise<Transaction[]>
  transaction (id: string): Promise<Transaction>
  waitForTransaction (id: string, states: string | string[], how?: { timeoutMs?: number }): Promise<Transaction>
  openTransactions (verdict?: OpenTransaction['verdict']): Promise<OpenTransaction[]>
  assertNoHangingTransactions (): Promise<void>
  /** What a read_committed reader gets, by partition and offset; null for a record without a value. */
  committed (topic: string, how?: { encoding?: 'text' | 'base64' }): Promise<(string | null)[]>
  /** A string is a topic; values are strings or bytes. */
  assertExactlyOnce (input: string | Iterable<Value>, output: string | Iterable<Value>): Promise<void>
  history (who: string): History
  runScenario (
    scenario: string | { name?: string, yaml?: string, runs?: string[], takes?: string[], seed?: number },
    how?: { timeoutMs?: number }
  ): Promise<ScenarioResult>
  events (which?: { kinds?: string[], nodes?: string[], signal?: AbortSignal }): AsyncGenerator<Event>
}

export class Cluster extends Client {
  readonly said: string
  stop (): Promise<void>
}

/** The context of a test of node:test or vitest stops the cluster after the test. */
export function start (options?: Options, t?: TestContext): Promise<Cluster>
export type TestContext = { after (fn: () => Promise<void>): void } | { onTestFinished (fn: () => Promise<void>): void }
/** The token is that of the environment's TXNSIM_TOKEN unless another is given. */
export function connect (url: string, options?: { token?: string }): Promise<Client>
export function hold (): Action
export function delay (ms: number): Action
export function drop (): Action
export function fail (error: string): Action
