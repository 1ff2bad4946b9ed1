// A simulated Kafka cluster for tests: start one, make faults happen, look at what became of transactions.
// Nothing but Node.js is needed, and the command txnsim; clients are whatever the test uses.

export { Client, History, TxnsimError, connect, delay, drop, fail, hold } from './client.mjs'
export { Cluster, start } from './process.mjs'
