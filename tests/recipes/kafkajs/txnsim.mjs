// A cluster for tests: the one that TXNSIM_BOOTSTRAP names, or a process of its own.

import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export async function startCluster () {
  if (process.env.TXNSIM_BOOTSTRAP) {
    return { brokers: process.env.TXNSIM_BOOTSTRAP.split(','), stop: async () => {} }
  }
  const directory = await mkdtemp(path.join(tmpdir(), 'txnsim-'))
  const ready = path.join(directory, 'ready.json')
  const options = ['serve', '--port', '0', '--config', 'cluster.yaml', '--ready-file', ready]
  const server = spawn('txnsim', options, { stdio: ['ignore', 'ignore', 'inherit'] })
  const ended = new Promise((resolve, reject) => {
    server.on('error', reject)
    server.on('exit', resolve)
  })
  process.on('exit', () => server.kill())
  // The file appears in one move, once every listener accepts.
  let text
  while (!(text = await readFile(ready, 'utf8').catch(() => undefined))) {
    const code = await Promise.race([ended, sleep(20)])
    if (code !== undefined) throw new Error(`txnsim serve ended with ${code}`)
  }
  return {
    brokers: JSON.parse(text).bootstrap.split(','),
    stop: async () => {
      server.kill()
      await ended
      await rm(directory, { recursive: true })
    }
  }
}
