// What the programs in JavaScript have in common: commands in, answers out (see package matrix).
import { createInterface } from 'node:readline'

export const say = (line) => console.log(JSON.stringify(line))

const text = (bytes) => (bytes === null || bytes === undefined ? null : bytes.toString())

// show prints a record; headers are pairs of a name and bytes.
export function show(partition, offset, time, key, value, headers) {
  say({
    record: {
      partition,
      offset: Number(offset),
      time: Number(time),
      key: text(key),
      value: text(value),
      headers: Object.fromEntries(headers.map(([name, content]) => [text(name), text(content)])),
    },
  })
}

// serve carries out commands until standard input ends; perform returns the result of a question.
export async function serve(perform) {
  const bootstrap = process.argv[2]
  for await (const line of createInterface({ input: process.stdin })) {
    try {
      const result = await perform(bootstrap, JSON.parse(line))
      if (result !== undefined) say({ result })
      say({ done: true })
    } catch (error) {
      say({ error: error.stack ?? String(error) })
    }
  }
  process.exit(0)
}
