// franz-kafka 0.7.5 (MIT) on Node 20: NODE_PATH=…/node_modules node franz_client.js TRUTH.json
const crypto = require('crypto')
const fs = require('fs')
const Kafka = require('franz-kafka')

const topicName = 'bazzz'
const truth = { scenario: 'batches compressed with gzip', client: 'franz-kafka 0.7.5', produced: [], consumed: [], events: [] }
const described = (payload, more) => ({
  ...more, topic: topicName, size: payload.length, sha256: crypto.createHash('sha256').update(payload).digest('hex')
})
const kafka = new Kafka({
  brokers: [{ id: 0, host: process.env.KAFKA_HOST, port: Number(process.env.KAFKA_PORT) }],
  compression: 'gzip',
  queueTime: 50,
  batchSize: 10,
  maxFetchDelay: 100
})
const payloads = Array.from({ length: 30 }, (_, n) => Buffer.from(`i is ${n} ${'-'.repeat(n)}\n`))

kafka.connect(() => {
  const topic = kafka.topic(topicName, { partitions: { consume: ['0-0'], produce: ['0:1'] } })
  topic.on('error', error => { throw error })
  topic.on('data', data => {
    truth.consumed.push(described(data, { partition: 0 }))
    if (truth.consumed.length === payloads.length) {
      fs.writeFileSync(process.argv[2], JSON.stringify(truth, null, 1))
      process.exit(0)
    }
  })
  topic.resume()
  for (const payload of payloads) {
    topic.write(payload)
    truth.produced.push(described(payload, { partition: 0 }))
  }
})
