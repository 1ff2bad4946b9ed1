// Orders in, receipts out: each order is one transaction, with the position behind it.

export class ReceiptService {
  #producers = new Map()

  constructor (kafka, { name, orders, receipts, notify = async () => {} }) {
    this.kafka = kafka
    this.name = name
    this.orders = orders
    this.receipts = receipts
    this.notify = notify
  }

  async start () {
    this.consumer = this.kafka.consumer({ groupId: this.name, maxWaitTimeInMs: 500 })
    await this.consumer.connect()
    await this.consumer.subscribe({ topic: this.orders, fromBeginning: true })
    await this.consumer.run({ autoCommit: false, eachMessage: given => this.#handle(given) })
  }

  async stop () {
    await this.consumer?.disconnect()
    for (const producer of this.#producers.values()) await producer.disconnect()
  }

  async #handle ({ topic, partition, message }) {
    const producer = await this.#producer(partition)
    const transaction = await producer.transaction()
    try {
      const receipt = { key: message.key, value: `receipt of ${message.value}` }
      await transaction.send({ topic: this.receipts, messages: [receipt] })
      await this.notify(message.value.toString())
      const offset = (BigInt(message.offset) + 1n).toString()
      const topics = [{ topic, partitions: [{ partition, offset }] }]
      await transaction.sendOffsets({ consumerGroupId: this.name, topics })
      await transaction.commit()
    } catch (error) {
      if (transaction.isActive()) await transaction.abort()
      throw error // KafkaJS hands out the message again
    }
  }

  // One id per partition: the next owner of the partition fences the one before.
  async #producer (partition) {
    if (!this.#producers.has(partition)) {
      const producer = this.kafka.producer({
        transactionalId: `${this.name}-${partition}`,
        idempotent: true,
        maxInFlightRequests: 1,
        transactionTimeout: 30_000
      })
      await producer.connect()
      this.#producers.set(partition, producer)
    }
    return this.#producers.get(partition)
  }
}
