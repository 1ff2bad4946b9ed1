// The helper under vitest: its context is taken as that of node:test is, and what is no context starts nothing.

import { expect, test } from 'vitest'

import { hold, start } from '../../index.mjs'

const PATIENCE_MS = 60_000
let url

test('a cluster is there for the test', async context => {
  const cluster = await start({ brokers: 1, topics: ['orders'] }, context)
  expect(cluster.bootstrap).toMatch(/^127\.0\.0\.1:\d+$/)
  url = cluster.url
  expect((await fetch(`${url}/healthz`)).status).toBe(200)
}, PATIENCE_MS)

test('it is stopped after the test', async () => {
  await expect(fetch(`${url}/healthz`)).rejects.toThrow()
})

test.fails('a fault that never struck fails its test', async context => {
  const cluster = await start({ brokers: 1, topics: ['orders'] }, context)
  await cluster.faults.arm({ id: 'late', point: 'client.request', api: 'Produce', action: hold() })
}, PATIENCE_MS)

test('what is no context of a test is refused before anything starts', async () => {
  await expect(start({ command: '/nonexistent/txnsim' }, {})).rejects.toThrow(/leave it out/)
})
