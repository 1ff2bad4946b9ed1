import type { AbstractStartedContainer, GenericContainer, StopOptions, StoppedTestContainer } from 'testcontainers'

import type { Client, Options } from './index.js'

/** What to start; without anything three brokers at transaction.version 2. */
export interface ContainerOptions extends Pick<Options, 'brokers' | 'topics' | 'transactionVersion' | 'asVersion' | 'settings'> {
  /** What the control port wants: 16 to 256 letters, digits and characters of -._~+/=; a new one unless given. */
  controlToken?: string
  /** A fault that never struck is no error when the container stops. */
  faultsMayMiss?: boolean
}

/** A simulated Kafka cluster in a container. */
export class TxnsimContainer extends GenericContainer {
  constructor (image?: string, options?: ContainerOptions)
  start (): Promise<StartedTxnsimContainer>
}

export class StartedTxnsimContainer extends AbstractStartedContainer {
  /** Where clients connect to (bootstrap.servers). */
  readonly bootstrap: string
  readonly brokers: string[]
  readonly controlUrl: string
  /** What the control port wants: Authorization: Bearer TOKEN. */
  readonly controlToken: string
  /** Arms faults, advances the clock, looks at transactions. */
  readonly client: Client
  /** Throws if a fault that was armed has never struck. */
  stop (options?: Partial<StopOptions>): Promise<StoppedTestContainer>
}
