# -*- coding: utf-8 -*-
"""brod 0.4.3 (MIT) on Python 2.7: python brod_client.py TRUTH.json"""

import hashlib
import json
import os
import sys

import brod

TOPIC = "orders"
BROKER = os.environ["KAFKA_HOST"], int(os.environ["KAFKA_PORT"])

payloads = ["order %d of %s" % (number, "x" * number) for number in range(20)] + ["gr\xc3\xb6\xc3\x9fer", ""]
kafka = brod.Kafka(*BROKER)
truth = {"scenario": "produce, ask for offsets, fetch", "client": "brod 0.4.3", "produced": [], "consumed": [], "events": []}


def described(payload, **more):
    return dict(more, topic=TOPIC, size=len(payload), sha256=hashlib.sha256(payload).hexdigest())


def event(request, partition, **more):
    truth["events"].append(dict(more, request=request, topic=TOPIC, partition=partition))


for partition, batch in ((0, payloads[:1]), (0, payloads[1:15]), (1, payloads[15:])):
    kafka.produce(TOPIC, batch, partition=partition)
    event("PRODUCE", partition, messages=len(batch))
    truth["produced"] += [described(payload, partition=partition) for payload in batch]

for partition in (0, 1):
    for time in (brod.LATEST_OFFSET, brod.EARLIEST_OFFSET):
        event("OFFSETS", partition, time=time, offsets=kafka.offsets(TOPIC, time, 10, partition=partition))

for partition, end in ((0, truth["events"][3]["offsets"][0]), (1, truth["events"][5]["offsets"][0])):
    offset = 0
    while offset < end:
        found = kafka.fetch(TOPIC, offset, partition=partition, max_size=200)
        event("FETCH", partition, offset=offset, max_size=200, messages=len(found))
        truth["consumed"] += [described(payload, partition=partition, offset=at) for at, payload in found]
        offset = found[-1][0] + len(found[-1][1]) + 9

for partition, offset in ((0, end + 100000), (7, 0)):
    try:
        kafka.fetch(TOPIC, offset, partition=partition, max_size=200)
        event("FETCH", partition, offset=offset, max_size=200, messages=0)
    except brod.KafkaError as error:
        event("FETCH", partition, offset=offset, max_size=200, error=type(error).__name__)
        kafka = brod.Kafka(*BROKER)

with open(sys.argv[1], "w") as out:
    json.dump(truth, out, indent=1, sort_keys=True)
