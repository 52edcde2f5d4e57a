"""samsa 0.3.11 (Apache-2.0) on Python 2.7: python samsa_client.py TRUTH.json"""

import hashlib
import json
import os
import sys

from samsa.client import OFFSET_EARLIEST, OFFSET_LATEST, Client
from samsa.handlers import ThreadingHandler

TOPICS = ("clicks", "views.daily")

client = Client(os.environ["KAFKA_HOST"], ThreadingHandler(), port=int(os.environ["KAFKA_PORT"]))
truth = {"scenario": "several topics in one request", "client": "samsa 0.3.11", "produced": [], "consumed": [], "events": []}


def described(payload, **more):
    return dict(more, size=len(payload), sha256=hashlib.sha256(payload).hexdigest())


def event(request, **more):
    truth["events"].append(dict(more, request=request))


batches = [
    (topic, partition, ["%s %d %d" % (topic, partition, n) for n in range(3 + partition)]) for topic in TOPICS for partition in (0, 1)
]
client.produce(*batches[0])
event("PRODUCE", messages=len(batches[0][2]))
client.multiproduce(batches[1:3])
event("MULTIPRODUCE", messages=sum(len(messages) for _, _, messages in batches[1:3]))
client.produce(*batches[3], version=1)
event("PRODUCE", messages=len(batches[3][2]))
for topic, partition, messages in batches:
    truth["produced"] += [described(payload, topic=topic, partition=partition) for payload in messages]

for time in (OFFSET_LATEST, OFFSET_EARLIEST):
    event("OFFSETS", topic=TOPICS[0], partition=0, time=time, offsets=client.offsets(TOPICS[0], 0, time, 5))

asked = [(topic, partition, 0, 1000) for topic, partition, _ in batches]
for (topic, partition, _, _), found in zip(asked, client.multifetch(asked)):
    truth["consumed"] += [described(str(m.payload), topic=topic, partition=partition, offset=m.offset) for m in found]
event("MULTIFETCH", sets=len(asked))

found = client.fetch(TOPICS[0], 0, 0, 40)  # cut in the third message
truth["consumed"] += [described(str(m.payload), topic=TOPICS[0], partition=0, offset=m.offset) for m in found]
event("FETCH", topic=TOPICS[0], partition=0, offset=0, max_size=40, messages=len(found))
try:
    client.fetch(TOPICS[0], 0, 99999, 40)
except Exception as error:
    event("FETCH", topic=TOPICS[0], partition=0, offset=99999, max_size=40, error=type(error).__name__)

client.disconnect()
with open(sys.argv[1], "w") as out:
    json.dump(truth, out, indent=1, sort_keys=True)
