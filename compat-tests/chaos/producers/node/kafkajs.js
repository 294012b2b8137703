// A producer with KafkaJS, which sends one record at a time (see package chaos).
const { Kafka, logLevel } = require('kafkajs')
const { setTimeout: sleep } = require('timers/promises')

const options = Object.fromEntries(process.argv.slice(2).map((arg) => arg.slice(2).split(/=(.*)/s, 2)))
const say = (...words) => console.log(...words)

let leaving = false
process.on('SIGTERM', () => {
  leaving = true
})

async function main() {
  const kafka = new Kafka({ clientId: options.name, brokers: options.bootstrap.split(','), logLevel: logLevel.ERROR })
  const producer = kafka.producer()
  await producer.connect()
  for (let i = 0; !leaving; i++) {
    const partition = i % Number(options.partitions)
    try {
      const [at] = await producer.send({ topic: options.topic, messages: [{ partition, value: `${options.name}-${i}` }] })
      say('acked', i, partition, at.baseOffset)
    } catch (error) {
      say('failed', i, error.message)
    }
    await sleep(Number(options['pace-ms']))
  }
  await producer.disconnect()
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
