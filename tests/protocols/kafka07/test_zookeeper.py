from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.dissect.contract.capabilities import Registry
from pulsarscope.inputs.zookeeper import DumpNote, Node
from pulsarscope.protocols.kafka07.zookeeper import read_registry

CONSUMER = "billing_app1-1346868000123-0a1b2c3d"

CLUSTER = {
    "/brokers": "",
    "/brokers/ids/0": "kafka-a-1346867214003:kafka-a.example:9092",
    "/brokers/ids/1": "kafka-b-1346867301441:kafka-b.example:9093",
    "/brokers/topics/orders/0": "2",
    "/brokers/topics/orders/1": "1",
    f"/consumers/billing/ids/{CONSUMER}": '{ "orders": 2,"returns": 1 }',
    "/consumers/billing/owners/orders/0-1": f"{CONSUMER}-12",
    "/consumers/billing/offsets/orders/0-1": "9931",
    "/consumers/billing/offsets/orders/1-0": "9223372036854775807",
}


def read(nodes: dict[str, str]) -> Registry:
    return read_registry([Node(path, value, f"line {at}") for at, (path, value) in enumerate(nodes.items(), 1)])


def records(registry: Registry, section: str) -> list[dict[str, Any]]:
    return registry.sections[section].records


def test_a_cluster_is_read_and_its_brokers_are_named_wherever_their_numbers_stand() -> None:
    registry = read(CLUSTER)
    assert (registry.unknown, registry.notes) == ([], [])
    assert list(registry.sections) == ["brokers", "topics", "consumers", "partitions"]
    assert records(registry, "brokers") == [
        {"broker": 0, "endpoint": "kafka-a.example:9092", "host": "kafka-a.example", "port": 9092, "creator": "kafka-a-1346867214003"},
        {"broker": 1, "endpoint": "kafka-b.example:9093", "host": "kafka-b.example", "port": 9093, "creator": "kafka-b-1346867301441"},
    ]
    assert records(registry, "topics") == [
        {"topic": "orders", "broker": 0, "endpoint": "kafka-a.example:9092", "partitions": 2},
        {"topic": "orders", "broker": 1, "endpoint": "kafka-b.example:9093", "partitions": 1},
    ]
    assert records(registry, "consumers") == [
        {
            "group": "billing",
            "consumer": CONSUMER,
            "subscribes": "topics",
            "threads": 3,
            "topics": {"orders": 2, "returns": 1},
            "pattern": None,
        }
    ]
    first, second = records(registry, "partitions")
    assert first == {
        "group": "billing",
        "topic": "orders",
        "broker": 0,
        "partition": 1,
        "endpoint": "kafka-a.example:9092",
        "offset": 9931,
        "consumer": CONSUMER,
        "thread": 12,
    }
    assert (second["endpoint"], second["offset"], second["consumer"]) == ("kafka-b.example:9093", 2**63 - 1, None)
    assert "byte position" in registry.sections["partitions"].about


@pytest.mark.parametrize(
    ("value", "subscribes", "threads", "pattern"),
    [("*3*log-.*", "whitelist", 3, "log-.*"), ("!1!a!b", "blacklist", 1, "a!b"), ("*2**", "whitelist", 2, "*")],
)
def test_a_consumer_may_subscribe_by_pattern(value: str, subscribes: str, threads: int, pattern: str) -> None:
    (record,) = records(read({"/consumers/g/ids/c": value}), "consumers")
    assert (record["subscribes"], record["threads"], record["pattern"], record["topics"]) == (subscribes, threads, pattern, None)


def test_clusters_below_roots_of_their_own_are_kept_apart() -> None:
    registry = read(
        {
            "/brokers/ids/0": "c:top:9092",
            "/dc/west/brokers/ids/0": "c:west:9092",
            "/dc/west/brokers/topics/t/0": "1",
            "/brokers/topics/t/0": "1",
        }
    )
    assert [(item["root"], item["endpoint"]) for item in records(registry, "topics")] == [("", "top:9092"), ("dc/west", "west:9092")]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("/brokers/ids/x", "c:h:1", '"x" is not the number of a broker'),
        ("/brokers/ids/00", "c:h:1", '"00" is not the number of a broker'),
        ("/brokers/ids/0", "c:h", '"c:h" is not creator:host:port'),
        ("/brokers/ids/0", "c:h:70000", "is not creator:host:port"),
        ("/brokers/ids/0", "c:h:٣", "is not creator:host:port"),
        ("/brokers/ids/0", "", "no value; that should be creator:host:port"),
        ("/brokers/ids/0", '{"version":1,"host":"h","port":1}', "Kafka 0.8"),
        ("/brokers/topics/t/x", "1", '"x" is not the number of a broker'),
        ("/brokers/topics/t/0", "many", '"many" is not a number of partitions'),
        ("/consumers/g/ids/c", '{"t": "x"}', "is not topics with their threads"),
        ("/consumers/g/ids/c", "[" * 10_000, "…"),
        ("/consumers/g/ids/c", '{"t": -1}', "is not topics"),
        ("/consumers/g/ids/c", '{"t": ' + "9" * 5_000 + "}", "is not topics"),
        ("/consumers/g/owners/t/0-01", "c-0", '"0-01" is not a broker and a partition'),
        ("/consumers/g/owners/t/0", "c-0", '"0" is not a broker and a partition'),
        ("/consumers/g/owners/t/0-0", "c", '"c" is not a consumer\'s thread'),
        ("/consumers/g/offsets/t/0-0", "-1", '"-1" is not an offset'),
        ("/consumers/g/offsets/t/0-0", "9223372036854775808", "is not an offset"),
        ("/consumers/g/offsets/t/0-0", "9" * 100_000, "…"),
    ],
)
def test_a_malformed_node_is_noted_and_gives_no_record(path: str, value: str, words: str) -> None:
    registry = read({"/brokers/ids/7": "c:h:1", path: value})
    assert words in registry.notes[0].text
    assert (registry.notes[0].place, registry.notes[0].path) == ("line 2", path)
    assert len(registry.notes[0].text) < 200
    assert sum(len(section.records) for section in registry.sections.values()) == 1


def test_a_broker_that_others_name_and_is_not_registered_is_noted_once() -> None:
    registry = read({"/brokers/topics/t/3": "1", "/consumers/g/offsets/t/3-0": "5", "/consumers/g/offsets/t/3-1": "6"})
    assert registry.notes == [DumpNote("line 1", "/brokers/topics/t/3", "broker 3 is not registered: it is down, or the dump lacks it")]
    assert [item["endpoint"] for item in records(registry, "partitions")] == [None, None]


def test_paths_of_others_are_left_as_unknown() -> None:
    nodes = {"/zookeeper/quota": "", "/controller": '{"brokerid":1}', "/brokers/seqid": "x", "nonsense": "", "": ""}
    registry = read(nodes)
    assert [node.path for node in registry.unknown] == list(nodes)
    assert registry.notes == []


PARTS = st.sampled_from(["brokers", "ids", "topics", "consumers", "owners", "offsets", "0", "0-0", "g", "", "-", "٣"])


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.lists(PARTS, max_size=7).map("/".join), st.text() | st.sampled_from(["1", "a:b:1", "c-1", '{"t":1}'])), max_size=5
    )
)
def test_no_nodes_make_it_fail_and_none_is_lost(pairs: list[tuple[str, str]]) -> None:
    registry = read(dict(pairs))
    for section in registry.sections.values():
        assert len({tuple(record) for record in section.records}) <= 1
