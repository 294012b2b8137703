// A member of a group that reads with KafkaJS (see package groups).
const { Kafka, logLevel } = require('kafkajs')

const options = Object.fromEntries(process.argv.slice(2).map((arg) => arg.slice(2).split(/=(.*)/s, 2)))

const kafka = new Kafka({ clientId: options.name, brokers: options.bootstrap.split(','), logLevel: logLevel.INFO })
const consumer = kafka.consumer({
  groupId: options.group,
  sessionTimeout: Number(options['session-ms']),
  heartbeatInterval: 1000,
}) // its retries are few: it looks for another coordinator only when they are used up

const say = (...words) => console.log(...words)

async function main() {
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => say('assigned', (payload.memberAssignment[options.topic] || []).join(',')))
  consumer.on(consumer.events.REBALANCING, () => say('assigned'))
  process.on('SIGTERM', async () => {
    await consumer.disconnect()
    process.exit(0)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [options.topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      for (const message of batch.messages) say('record', batch.partition, message.offset, message.value.toString())
      try {
        const next = String(BigInt(batch.lastOffset()) + 1n)
        await consumer.commitOffsets([{ topic: batch.topic, partition: batch.partition, offset: next }])
      } catch (error) {
        say('commit', error.message) // of a generation that has passed: thrown on, it would end the consumer for good
      }
    },
  })
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
