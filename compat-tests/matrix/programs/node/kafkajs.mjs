// Shows what KafkaJS does (see package matrix).
import { createRequire } from 'node:module'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { serve, show } from './program.mjs'

const require = createRequire(process.env.LIBRARIES)
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
const { lz4Compress, lz4Decompress } = require('@platformatic/wasm-utils')

// The library itself knows gzip, and has others plugged in.
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => lz4Compress(encoder.buffer),
  decompress: async (buffer) => lz4Decompress(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => zstdCompressSync(encoder.buffer),
  decompress: async (buffer) => zstdDecompressSync(buffer),
})

const client = (bootstrap) =>
  new Kafka({ brokers: [bootstrap], logLevel: logLevel.WARN, logCreator: () => (entry) => console.error(entry.log) })

const codecs = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }

async function produce(bootstrap, c) {
  const producer = client(bootstrap).producer(c.idempotent ? { idempotent: true } : {})
  await producer.connect()
  const options = {}
  if (c.acks) options.acks = c.acks === 'all' ? -1 : Number(c.acks)
  if (c.codec) options.compression = CompressionTypes[codecs[c.codec]]
  const messages = c.records.map((r) => ({
    key: r.key,
    value: r.value,
    headers: r.headers,
    ...(r.time ? { timestamp: String(r.time) } : {}),
  }))
  await producer.send({ topic: c.topic, messages, ...options })
  await producer.disconnect()
}

// read runs a consumer until it has shown so many records, and returns where to go on.
async function read(consumer, count) {
  const next = new Map()
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer
      .run({
        autoCommit: false,
        eachMessage: async ({ partition, message: m }) => {
          if (count === 0) return
          show(partition, m.offset, m.timestamp, m.key, m.value, Object.entries(m.headers))
          next.set(partition, BigInt(m.offset) + 1n)
          if (--count === 0) resolve()
        },
      })
      .catch(reject)
  })
  return next
}

// consume is in a group of its own: the library has no other way to read.
async function consume(bootstrap, c) {
  const kafka = client(bootstrap)
  const consumer = kafka.consumer({ groupId: `alone-${c.topic}-${c.from}` })
  await consumer.connect()
  await consumer.subscribe({ topics: [c.topic], fromBeginning: c.from === 'start' })
  const reading = read(consumer, c.count)
  if (!['start', 'end'].includes(c.from)) {
    const admin = kafka.admin()
    await admin.connect()
    for (const { partition, offset } of await admin.fetchTopicOffsetsByTimestamp(c.topic, Number(c.from))) {
      consumer.seek({ topic: c.topic, partition, offset })
    }
    await admin.disconnect()
  }
  await reading
  await consumer.disconnect()
}

async function group(bootstrap, c) {
  const consumer = client(bootstrap).consumer({ groupId: c.group })
  await consumer.connect()
  await consumer.subscribe({ topics: [c.topic], fromBeginning: true })
  const next = await read(consumer, c.count)
  await consumer.commitOffsets([...next].map(([partition, offset]) => ({ topic: c.topic, partition, offset: String(offset) })))
  await consumer.disconnect()
}

const configs = (c) => Object.entries(c.configs).map(([name, value]) => ({ name, value }))
const resource = (c) => ({ type: ConfigResourceTypes.TOPIC, name: c.topic })

const admin = {
  'create-topic': async (a, c) => {
    await a.createTopics({ topics: [{ topic: c.topic, numPartitions: c.partitions, replicationFactor: 1, configEntries: configs(c) }] })
  },
  'delete-topic': async (a, c) => a.deleteTopics({ topics: [c.topic] }),
  'create-partitions': async (a, c) => {
    await a.createPartitions({ topicPartitions: [{ topic: c.topic, count: c.partitions }] })
  },
  'delete-records': async (a, c) => {
    await a.fetchTopicOffsets(c.topic) // or the library does not know the topic's leaders
    await a.deleteTopicRecords({ topic: c.topic, partitions: [{ partition: 0, offset: String(c.offset) }] })
  },
  'alter-configs': async (a, c) => {
    await a.alterConfigs({ validateOnly: false, resources: [{ ...resource(c), configEntries: configs(c) }] })
  },
  'describe-configs': async (a, c) => {
    const described = await a.describeConfigs({ includeSynonyms: false, resources: [resource(c)] })
    return Object.fromEntries(described.resources[0].configEntries.map((e) => [e.configName, e.configValue]))
  },
  'list-topics': async (a) => a.listTopics(),
  'describe-topic': async (a, c) => (await a.fetchTopicMetadata({ topics: [c.topic] })).topics[0].partitions.length,
  'list-groups': async (a) => (await a.listGroups()).groups.map((g) => g.groupId),
  'describe-group': async (a, c) => (await a.describeGroups([c.group])).groups[0].state,
  'group-offsets': async (a, c) => {
    const [{ partitions }] = await a.fetchOffsets({ groupId: c.group, topics: [c.topic] })
    return Object.fromEntries(partitions.map((p) => [p.partition, Number(p.offset)]))
  },
  'delete-group': async (a, c) => {
    await a.deleteGroups([c.group])
  },
}

async function administer(bootstrap, c) {
  const a = client(bootstrap).admin()
  await a.connect()
  try {
    return await admin[c.do](a, c)
  } finally {
    await a.disconnect()
  }
}

await serve((bootstrap, c) => ({ produce, consume, group })[c.do]?.(bootstrap, c) ?? administer(bootstrap, c))
