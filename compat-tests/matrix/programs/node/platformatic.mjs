// Shows what @platformatic/kafka does (see package matrix).
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { serve, show } from './program.mjs'

const library = createRequire(process.env.LIBRARIES).resolve('@platformatic/kafka')
const { Admin, ConfigResourceTypes, Consumer, IncrementalAlterConfigOperationTypes, Producer } = await import(pathToFileURL(library))

const client = (bootstrap) => ({ clientId: 'platformatic', bootstrapBrokers: [bootstrap] })

const bytes = (text) => (text === null ? undefined : Buffer.from(text))

async function produce(bootstrap, c) {
  const options = {} // of each send: acks that only the producer is given are not heeded
  if (c.acks) options.acks = c.acks === 'all' ? -1 : Number(c.acks)
  if (c.codec) options.compression = c.codec
  if (c.idempotent) options.idempotent = true
  const producer = new Producer(client(bootstrap))
  await producer.send({
    ...options,
    messages: c.records.map((r) => ({
      topic: c.topic,
      key: bytes(r.key),
      value: bytes(r.value),
      headers: new Map(Object.entries(r.headers ?? {}).map(([name, content]) => [Buffer.from(name), Buffer.from(content)])),
      ...(r.time ? { timestamp: BigInt(r.time) } : {}),
    })),
  })
  await producer.close()
}

// read shows so many records of a stream, and returns where to go on.
async function read(stream, count) {
  const next = new Map()
  for await (const m of stream) {
    show(m.partition, m.offset, m.timestamp, m.key, m.value, [...m.headers])
    next.set(m.partition, { offset: m.offset + 1n, leaderEpoch: m.leaderEpoch })
    if (--count === 0) break
  }
  return next
}

// consume is in a group of its own: a stream belongs to one.
async function consume(bootstrap, c) {
  const consumer = new Consumer({ ...client(bootstrap), groupId: `alone-${c.topic}-${c.from}`, autocommit: false })
  const where = { start: { mode: 'earliest' }, end: { mode: 'latest' } }[c.from] ?? { mode: 'manual' }
  if (where.mode === 'manual') {
    const found = await consumer.listOffsets({ topics: [c.topic], timestamp: BigInt(c.from) })
    where.offsets = found.get(c.topic).map((offset, partition) => ({ topic: c.topic, partition, offset }))
  }
  const stream = await consumer.consume({ topics: [c.topic], ...where })
  await read(stream, c.count)
  await consumer.close(true)
}

async function group(bootstrap, c) {
  const consumer = new Consumer({ ...client(bootstrap), groupId: c.group, autocommit: false })
  const stream = await consumer.consume({ topics: [c.topic], mode: 'committed', fallbackMode: 'earliest' })
  const next = await read(stream, c.count)
  await consumer.commit({ offsets: [...next].map(([partition, place]) => ({ topic: c.topic, partition, ...place })) })
  await consumer.close(true)
}

const resource = (c) => ({ resourceType: ConfigResourceTypes.TOPIC, resourceName: c.topic })

const admin = {
  'create-topic': async (a, c) => {
    const configs = Object.entries(c.configs).map(([name, value]) => ({ name, value }))
    await a.createTopics({ topics: [c.topic], partitions: c.partitions, replicas: 1, configs })
  },
  'delete-topic': async (a, c) => a.deleteTopics({ topics: [c.topic] }),
  'create-partitions': async (a, c) => a.createPartitions({ topics: [{ name: c.topic, count: c.partitions, assignments: null }] }),
  'delete-records': async (a, c) => {
    await a.deleteRecords({ topics: [{ name: c.topic, partitions: [{ partition: 0, offset: BigInt(c.offset) }] }] })
  },
  'alter-configs': async (a, c) => {
    const configOperation = IncrementalAlterConfigOperationTypes.SET
    const configs = Object.entries(c.configs).map(([name, value]) => ({ name, value, configOperation }))
    await a.incrementalAlterConfigs({ resources: [{ ...resource(c), configs }] })
  },
  'describe-configs': async (a, c) => {
    const [described] = await a.describeConfigs({ resources: [resource(c)] })
    return Object.fromEntries(described.configs.map((e) => [e.name, e.value]))
  },
  'list-topics': async (a) => a.listTopics(),
  'describe-topic': async (a, c) => (await a.metadata({ topics: [c.topic] })).topics.get(c.topic).partitionsCount,
  'list-groups': async (a) => [...(await a.listGroups()).keys()],
  'describe-group': async (a, c) => (await a.describeGroups({ groups: [c.group] })).get(c.group).state,
  'group-offsets': async (a, c) => {
    const [{ topics }] = await a.listConsumerGroupOffsets({ groups: [c.group] })
    return Object.fromEntries(topics[0].partitions.map((p) => [p.partitionIndex, Number(p.committedOffset)]))
  },
  'delete-group': async (a, c) => a.deleteGroups({ groups: [c.group] }),
}

async function administer(bootstrap, c) {
  const a = new Admin(client(bootstrap))
  try {
    return await admin[c.do](a, c)
  } finally {
    await a.close()
  }
}

await serve((bootstrap, c) => ({ produce, consume, group })[c.do]?.(bootstrap, c) ?? administer(bootstrap, c))
