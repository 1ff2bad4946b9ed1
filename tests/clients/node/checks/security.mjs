// Who one is: the transactional core over the listeners of `serve --security demo`.

import { addresses, assert, refusal, same, securityFile } from '../lab.mjs'
import { onAll, PARTITIONS, shows, values } from './transactions.mjs'

const USERS = {
  'SCRAM-SHA-256': 'scram-user',
  'SCRAM-SHA-512': 'scram-user',
  PLAIN: 'plain-user',
  OAUTHBEARER: 'oauth-user'
}

export const checks = {
  sasl: lab => logins(lab, core),
  tls: lab => certificate(lab, core),

  // Its transactions need the rights of a broker; who it is, it can tell without them.
  'platformatic-sasl': lab => logins(lab, plainly),
  'platformatic-tls': lab => certificate(lab, plainly)
}

/** Each mechanism, with the right password and a wrong one. */
async function logins (lab, work) {
  for (const mechanism of lab.plain().mechanisms) {
    const topic = await newTopic(lab, mechanism.toLowerCase())
    await work(lab, lab.driver(...saslOf(mechanism, USERS[mechanism])), topic)
    if (mechanism === 'OAUTHBEARER') continue
    const stranger = lab.driver(...saslOf(mechanism, USERS[mechanism], 'wrong'))
    const error = await refusal('a wrong password', stranger.brokers())
    const told = stranger.described(error)
    assert(stranger.isWrongPassword(error), `not the library's error for it: ${told}`)
  }
}

async function certificate (lab, work) {
  const topic = await newTopic(lab, 'tls')
  const tls = {
    ca: securityFile('ca.pem'),
    cert: securityFile('tls-user.pem'),
    key: securityFile('tls-user.key')
  }
  await work(lab, lab.driver(addresses('TXNSIM_TLS_BOOTSTRAP'), { tls }), topic)
}

/** Commit, abort, read. */
async function core (lab, driver, topic) {
  const producer = lab.keep(await driver.producer({ transactionalId: topic }))
  await producer.begin()
  await producer.send(topic, onAll('one'))
  same(await values(driver, topic, true), [], 'committed before')
  await producer.commit()
  await shows(driver, topic, onAll('one'))
  await producer.begin()
  await producer.send(topic, onAll('never'))
  await producer.abort()
  await producer.begin()
  await producer.send(topic, onAll('two'))
  await producer.commit()
  await shows(driver, topic, [...onAll('one'), ...onAll('two')])
}

/** Produce and read, no transaction. */
async function plainly (lab, driver, topic) {
  const producer = lab.keep(await driver.producer({ idempotent: true }))
  await producer.send(topic, onAll('one'))
  await shows(driver, topic, onAll('one'))
}

/** Users may use topics; only the administrator may create them. */
async function newTopic (lab, suffix) {
  const admin = lab.driver(...saslOf('SCRAM-SHA-256', 'admin'))
  const topic = lab.name(suffix)
  await admin.createTopic(topic, PARTITIONS)
  return topic
}

function saslOf (mechanism, username, password = `${username}-secret`) {
  const sasl = { mechanism, username, password, token: unsecuredToken(username) }
  return [addresses('TXNSIM_SASL_BOOTSTRAP'), { sasl, tls: { ca: securityFile('ca.pem') } }]
}

/** A token that nobody has signed (KIP-255). */
function unsecuredToken (sub) {
  const now = Math.floor(Date.now() / 1_000)
  const part = content => Buffer.from(JSON.stringify(content)).toString('base64url')
  return `${part({ alg: 'none' })}.${part({ sub, iat: now, exp: now + 3_600 })}.`
}
