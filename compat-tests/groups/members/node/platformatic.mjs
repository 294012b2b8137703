// A member of a group that reads with @platformatic/kafka (see package groups).
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const library = createRequire(process.env.LIBRARIES).resolve('@platformatic/kafka')
const { Consumer } = await import(pathToFileURL(library))

const options = Object.fromEntries(process.argv.slice(2).map((arg) => arg.slice(2).split(/=(.*)/s, 2)))
const say = (...words) => console.log(...words)

const consumer = new Consumer({
  clientId: options.name,
  bootstrapBrokers: [options.bootstrap],
  groupId: options.group,
  ...(options.instance ? { groupInstanceId: options.instance } : {}),
  sessionTimeout: Number(options['session-ms']),
  heartbeatInterval: 1000,
  autocommit: false,
})
consumer.on('consumer:group:join', ({ assignments }) =>
  say('assigned', (assignments ?? []).filter((a) => a.topic === options.topic).flatMap((a) => a.partitions).join(',')),
)
consumer.on('consumer:group:rebalance', () => say('assigned'))
consumer.on('consumer:heartbeat:error', ({ error }) => say('heartbeat', error?.message))

const stream = await consumer.consume({ topics: [options.topic], mode: 'committed', fallbackMode: 'earliest' })
stream.on('error', (error) => say('error', error.stack))

let leaving = false
process.on('SIGTERM', async () => {
  leaving = true
  await consumer.close(true)
  process.exit(0)
})

for await (const m of stream) {
  say('record', m.partition, String(m.offset), m.value.toString())
  try {
    await m.commit()
  } catch (error) {
    say('commit', error.stack)
  }
  if (leaving) break
}
