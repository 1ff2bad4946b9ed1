// The client matrix in Node.js: every check of tests/clients/matrix, put to one library.
//
//     node main.mjs MODULES LIBRARY [CHECK...]
//
// MODULES is the node_modules folder where the libraries are, LIBRARY names a file of drivers/.
// The cluster is told by TXNSIM_BOOTSTRAP and its neighbours (see lab.mjs). A library is asked
// through its driver, which adds no retries and hides no error.

import { inspect } from 'node:util'

import * as basics from './checks/basics.mjs'
import * as groups from './checks/groups.mjs'
import * as security from './checks/security.mjs'
import * as transactions from './checks/transactions.mjs'
import { Lab } from './lab.mjs'
import { useModules } from './modules.mjs'

const CHECKS = new Map(
  [basics, transactions, groups, security].flatMap(({ checks }) => Object.entries(checks))
)

async function main ([modules, library, ...asked]) {
  const unknown = asked.filter(check => !CHECKS.has(check))
  if (!library || unknown.length > 0 || !process.env.TXNSIM_BOOTSTRAP || !process.env.TXNSIM_RUN) {
    process.stderr.write(
      `usage: main.mjs MODULES LIBRARY [CHECK...], with TXNSIM_BOOTSTRAP and TXNSIM_RUN; ` +
        `checks: ${[...CHECKS.keys()].join(' ')}${unknown.map(check => `; not ${check}`)}\n`
    )
    return 2
  }
  useModules(modules)
  const { Driver } = await import(`./drivers/${library}.mjs`)
  let failed = 0
  const names = asked.length > 0 ? asked : [...CHECKS.keys()]
  for (const name of names) {
    failed += (await passes(name, new Lab(Driver, name))) ? 0 : 1
  }
  process.stdout.write(`${names.length - failed} passed, ${failed} failed\n`)
  return failed > 0 ? 1 : 0
}

async function passes (name, lab) {
  try {
    await CHECKS.get(name)(lab)
    await lab.close()
  } catch (error) {
    process.stderr.write(`${inspect(error, { depth: 6 })}\n${lab.log()}\n`)
    const reason = `${error.name ?? 'error'}: ${error.message ?? error}`.replaceAll(/\s+/g, ' ')
    process.stdout.write(`FAIL ${name}: ${reason}\n`)
    // What is still open dies with the process: a second error would hide the first.
    return false
  }
  process.stdout.write(`PASS ${name}\n`)
  return true
}

const code = await main(process.argv.slice(2))
// A client that failed may have timers that never end.
process.exit(code)
