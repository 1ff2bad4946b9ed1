// An exam's driver in Node.js without its library: it reads commands and writes answers (docs/exam.md).

const { createInterface } = require('node:readline')

const CONTRACT = 1
const answers = process.stdout
console.log = console.error // a library that prints must not write between the answers

/** What the library can't do. */
class Unsupported extends Error {}

/** Answers commands until standard input ends; `described` is the library's own word on an error. */
async function serve ({ library, version, commands, described }) {
  process.on('unhandledRejection', error => console.error(error))
  const allCommands = {
    ...commands,
    describe: async ({ contract }) => ({
      contract: Math.min(contract, CONTRACT),
      library,
      version,
      language: 'Node.js',
      runtime: `Node.js ${process.version}`
    })
  }
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, do: verb, ...command } = JSON.parse(line)
    answers.write(JSON.stringify({ id, ...(await carryOut(allCommands, verb, command, described)) }) + '\n')
  }
  process.exit(0) // what hangs in a library must not keep the process
}

async function carryOut (commands, verb, command, described) {
  try {
    if (!Object.hasOwn(commands, verb)) throw new Unsupported(verb)
    return { ok: true, ...(await commands[verb](command)) }
  } catch (raised) {
    const description = {
      class: raised.constructor.name,
      message: String(raised.message).slice(0, 500),
      ...(raised instanceof Unsupported ? { name: 'UNSUPPORTED_COMMAND' } : described(raised))
    }
    return { ok: false, error: description }
  }
}

module.exports = { Unsupported, serve }
