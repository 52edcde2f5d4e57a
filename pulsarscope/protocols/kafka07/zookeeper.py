"""The registry of Kafka 0.7 in ZooKeeper (kafka.utils.ZkUtils, kafka.server.KafkaZooKeeper of 0.7.2).

/brokers/ids/[id]                                  creator:host:port
/brokers/topics/[topic]/[id]                       number of the topic's partitions on that broker
/consumers/[group]/ids/[consumer]                  {"topic": threads, …}, or since 0.7.1 *threads*whitelist or !threads!blacklist
/consumers/[group]/owners/[topic]/[id-partition]   the thread that reads the partition: [consumer]-[number]
/consumers/[group]/offsets/[topic]/[id-partition]  the byte position from which the group continues

All paths may be below a root (zookeeper.connect=host:2181/root), so that several clusters can share one ZooKeeper.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from pulsarscope.dissect.contract.capabilities import Registry, Section
from pulsarscope.inputs.zookeeper import DumpNote, Node

_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)  # 00 is not another name of 0
_OFFSET = re.compile(r"[0-9]{1,19}", re.ASCII)
_PARTITION = re.compile(rf"({_NUMBER.pattern})-({_NUMBER.pattern})", re.ASCII)
_OWNER = re.compile(r"(.+)-([0-9]{1,10})", re.ASCII | re.DOTALL)
_TOPICS = msgspec.json.Decoder(dict[str, Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]])
_PATTERN = re.compile(r"([*!])([0-9]{1,10})\1(.*)", re.ASCII | re.DOTALL)


class _Partition(NamedTuple):
    root: str
    group: str
    topic: str
    broker: int
    partition: int


def read_registry(nodes: Sequence[Node]) -> Registry:
    """See `pulsarscope.dissect.contract.capabilities.ReadRegistry`."""
    return _RegistryReader().read(nodes)


class _RegistryReader:
    """The records from the nodes of one dump, by kind."""

    def __init__(self) -> None:
        self._brokers: dict[tuple[str, int], dict[str, Any]] = {}
        self._topics: list[dict[str, Any]] = []
        self._consumers: list[dict[str, Any]] = []
        self._owners: dict[_Partition, tuple[str, int]] = {}
        self._offsets: dict[_Partition, int] = {}
        self._registered: set[tuple[str, int]] = set()
        """Brokers with a node, regardless of its value."""
        self._references: dict[tuple[str, int], Node] = {}
        """First node that refers to a broker, by root and id."""
        self._unknown: list[Node] = []
        self._notes: list[DumpNote] = []

    def read(self, nodes: Sequence[Node]) -> Registry:
        for node in nodes:
            if (problem := self._node(node)) is not None:
                self._notes.append(DumpNote(node.place, node.path, problem))
        for name, node in self._references.items():
            if name not in self._registered:
                self._notes.append(DumpNote(node.place, node.path, f"broker {name[1]} is not registered: it is down, or the dump lacks it"))
        for record in self._topics:
            record["endpoint"] = self._endpoint(record["root"], record["broker"])
        partitions = [self._partition(key) for key in sorted(self._owners.keys() | self._offsets.keys())]
        sections = {
            "brokers": Section("", _sorted(self._brokers.values(), "root", "broker")),
            "topics": Section("", _sorted(self._topics, "root", "topic", "broker")),
            "consumers": Section("", _sorted(self._consumers, "root", "group", "consumer")),
            "partitions": Section("an offset is the byte position from which the group continues", partitions),
        }
        if not any(record["root"] for section in sections.values() for record in section.records):
            for section in sections.values():
                for record in section.records:
                    del record["root"]
        return Registry(sections, self._unknown, self._notes)

    def _node(self, node: Node) -> str | None:
        """Add a node; return the problem of a malformed one."""
        match node.path.split("/")[1:]:
            case [*root, "brokers", "ids", broker]:
                return self._broker("/".join(root), broker, node.value)
            case [*root, "brokers", "topics", topic, broker]:
                return self._topic("/".join(root), topic, broker, node)
            case [*root, "consumers", group, "ids", consumer]:
                return self._consumer("/".join(root), group, consumer, node.value)
            case [*root, "consumers", group, ("owners" | "offsets") as kind, topic, place]:
                if (match := _PARTITION.fullmatch(place)) is None:
                    return f'the name "{place}" is not a broker and a partition, as in 0-3'
                key = _Partition("/".join(root), group, topic, int(match[1]), int(match[2]))
                self._references.setdefault((key.root, key.broker), node)
                return self._owner(key, node.value) if kind == "owners" else self._offset(key, node.value)
            case (
                [*_, "brokers"]
                | [*_, "brokers", "ids" | "topics"]
                | [*_, "brokers", "topics", _]
                | [*_, "consumers"]
                | [*_, "consumers", _]
                | [*_, "consumers", _, "ids" | "owners" | "offsets"]
                | [*_, "consumers", _, "owners" | "offsets", _]
            ) if not node.value:
                return None  # a folder
        self._unknown.append(node)
        return None

    def _broker(self, root: str, broker: str, value: str) -> str | None:
        creator, _, endpoint = value.partition(":")
        host, _, port = endpoint.rpartition(":")
        if not _NUMBER.fullmatch(broker):
            return f'the name "{broker}" is not the number of a broker'
        self._registered.add((root, int(broker)))
        if not (host and _NUMBER.fullmatch(port) and 0 < int(port) < 65_536):
            return _mismatch(value, "creator:host:port")
        self._brokers[root, int(broker)] = {
            "root": root, "broker": int(broker), "endpoint": f"{host}:{port}", "host": host, "port": int(port), "creator": creator
        }  # fmt: skip
        return None

    def _topic(self, root: str, topic: str, broker: str, node: Node) -> str | None:
        value = node.value
        if not _NUMBER.fullmatch(broker):
            return f'the name "{broker}" is not the number of a broker'
        if not _NUMBER.fullmatch(value):
            return _mismatch(value, "a number of partitions")
        self._references.setdefault((root, int(broker)), node)
        self._topics.append({"root": root, "topic": topic, "broker": int(broker), "endpoint": None, "partitions": int(value)})
        return None

    def _consumer(self, root: str, group: str, consumer: str, value: str) -> str | None:
        topics: dict[str, int] | None = None
        if (match := _PATTERN.fullmatch(value)) is not None:
            subscribes, threads, pattern = "whitelist" if match[1] == "*" else "blacklist", int(match[2]), match[3]
        else:
            try:
                topics = _TOPICS.decode(value)
            except (ValueError, RecursionError):
                return _mismatch(value, "topics with their threads, or a pattern")
            subscribes, threads, pattern = "topics", sum(topics.values()), None
        self._consumers.append(
            {
                "root": root, "group": group, "consumer": consumer, "subscribes": subscribes, "threads": threads,
                "topics": topics, "pattern": pattern,
            }
        )  # fmt: skip
        return None

    def _owner(self, key: _Partition, value: str) -> str | None:
        if (match := _OWNER.fullmatch(value)) is None:
            return _mismatch(value, "a consumer's thread, which ends in its number")
        self._owners[key] = match[1], int(match[2])
        return None

    def _offset(self, key: _Partition, value: str) -> str | None:
        if not _OFFSET.fullmatch(value) or int(value) >= 1 << 63:
            return _mismatch(value, "an offset")
        self._offsets[key] = int(value)
        return None

    def _partition(self, key: _Partition) -> dict[str, Any]:
        consumer, thread = self._owners.get(key, (None, None))
        return {
            "root": key.root,
            "group": key.group,
            "topic": key.topic,
            "broker": key.broker,
            "partition": key.partition,
            "endpoint": self._endpoint(key.root, key.broker),
            "offset": self._offsets.get(key),
            "consumer": consumer,
            "thread": thread,
        }

    def _endpoint(self, root: str, broker: int) -> str | None:
        """Return host:port of a broker; None if it is not registered."""
        record = self._brokers.get((root, broker))
        return None if record is None else record["endpoint"]


def _sorted(records: Any, *keys: str) -> list[dict[str, Any]]:
    return sorted(records, key=lambda record: [record[key] for key in keys])


def _mismatch(value: str, expected: str) -> str:
    """Return a text about an unexpected value, with the beginning of the value."""
    if not value:
        return f"it has no value; that should be {expected}"
    if value.startswith("{") and '"version"' in value:
        return f"JSON, as Kafka 0.8 and later write it, is not {expected}"
    return f'"{value[:60]}{"" if len(value) <= 60 else "…"}" is not {expected}'
