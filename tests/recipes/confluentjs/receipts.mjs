// Orders in, receipts out: each order is one transaction, with the position behind it.

export class ReceiptService {
  constructor (kafka, { name, notify = async () => {} }) {
    this.notify = notify
    this.consumer = kafka.consumer({
      kafkaJS: { groupId: name, fromBeginning: true, autoCommit: false }
    })
    this.producer = kafka.producer({ kafkaJS: { transactionalId: name, transactionTimeout: 30_000 } })
  }

  async start () {
    await this.producer.connect()
    await this.consumer.connect()
    await this.consumer.subscribe({ topic: 'orders' })
    await this.consumer.run({ eachMessage: given => this.#handle(given) })
  }

  async stop () {
    await this.consumer.disconnect()
    await this.producer.disconnect()
  }

  async #handle ({ topic, partition, message }) {
    const transaction = await this.producer.transaction()
    try {
      const receipt = { key: message.key, value: `receipt of ${message.value}` }
      await transaction.send({ topic: 'receipts', messages: [receipt] })
      await this.notify(message.value.toString())
      const offset = (BigInt(message.offset) + 1n).toString()
      const topics = [{ topic, partitions: [{ partition, offset }] }]
      await transaction.sendOffsets({ consumer: this.consumer, topics })
      await transaction.commit()
    } catch (error) {
      await transaction.abort()
      throw error // the client hands out the message again
    }
  }
}
