// prozess 0.7.0 (BSD) on Node 20: NODE_PATH=…/node_modules node prozess_client.js TRUTH.json
// Its dependency bignum is native and does not build any more: the few calls that are made of it are answered by BigInt.
const crypto = require('crypto')
const fs = require('fs')
const Module = require('module')

class Big {
  constructor (value) { this.value = BigInt(value.value ?? value) }
  add (other) { return new Big(this.value + other.value) }
  eq (other) { return this.value === other.value }
  toString () { return String(this.value) }
  toBuffer () { const bytes = Buffer.alloc(8); bytes.writeBigInt64BE(this.value); return bytes }
}
const bignum = value => new Big(value)
bignum.fromBuffer = bytes => new Big(bytes.readBigInt64BE())
const load = Module._load
Module._load = (name, ...rest) => name === 'bignum' ? bignum : load(name, ...rest)

const { Producer, Consumer } = require('prozess')
const host = process.env.KAFKA_HOST
const port = Number(process.env.KAFKA_PORT)
const topic = 'social'
const truth = { scenario: 'produce, ask for offsets, consume', client: 'prozess 0.7.0', produced: [], consumed: [], events: [] }
const described = (payload, more) => ({
  ...more, topic, size: Buffer.byteLength(payload), sha256: crypto.createHash('sha256').update(payload).digest('hex')
})

function produce (batches, done) {
  const producer = new Producer(topic, { host, port })
  producer.connect()
  producer.once('connect', function next () {
    const batch = batches.shift()
    if (batch === undefined) return setTimeout(done, 100)
    producer.send(batch, error => {
      if (error) throw error
      truth.produced.push(...batch.map(payload => described(payload, { partition: 0 })))
      truth.events.push({ request: 'PRODUCE', topic, partition: 0, messages: batch.length })
      next()
    })
  })
}

function consume (done) {
  const consumer = new Consumer({ host, port, topic, offset: 0, maxMessageSize: 4096 })
  consumer.connect(() => consumer.getLatestOffset((_, latest) => {
    truth.events.push({ request: 'OFFSETS', topic, partition: 0, time: -1, offsets: [Number(latest.value)] })
    consumer.getEarliestOffset((_, earliest) => {
      truth.events.push({ request: 'OFFSETS', topic, partition: 0, time: -2, offsets: [Number(earliest.value)] })
      consumer.consume((error, messages) => {
        if (error) throw error
        let offset = 0
        for (const message of messages) {
          truth.consumed.push(described(message.payload, { partition: 0, offset }))
          offset += message.toBytes().length
        }
        truth.events.push({ request: 'FETCH', topic, partition: 0, offset: 0, max_size: 4096, messages: messages.length })
        consumer.setOffset(123456)
        consumer.consume(error => {
          truth.events.push({ request: 'FETCH', topic, partition: 0, offset: 123456, max_size: 4096, error: error.message })
          done()
        })
      })
    })
  }))
}

const payloads = Array.from({ length: 12 }, (_, n) => JSON.stringify({ number: n, text: 'ü'.repeat(n) }))
produce([payloads.slice(0, 1), payloads.slice(1, 4), payloads.slice(4)], () => consume(() => {
  fs.writeFileSync(process.argv[2], JSON.stringify(truth, null, 1))
  process.exit(0)
}))
