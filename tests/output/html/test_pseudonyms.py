from __future__ import annotations

import pytest

from pulsarscope.output.html.pseudonyms import Pseudonyms

TOPIC = "persistent://acme/billing/orders"
KEY = b"0123456789abcdef"


def short(topic: str) -> str:
    return topic.removeprefix("persistent://")


def base(topic: str) -> str:
    return topic.partition("-partition-")[0]


NAMES = Pseudonyms(KEY, [TOPIC, f"{TOPIC}-partition-3", "with space", "ends."], short, base)


def test_a_topic_has_one_pseudonym_in_all_its_forms() -> None:
    name = NAMES.text(TOPIC)
    assert name.startswith("topic-")
    assert NAMES.text(short(TOPIC)) == name
    assert NAMES.text(TOPIC.removeprefix("persistent://")) == name  # as in the name of a schema
    assert NAMES.text(f"Consumer 3 on {TOPIC}, since 2 s.") == f"Consumer 3 on {name}, since 2 s."
    assert NAMES.text(f"{TOPIC}-partition-3") == f"{name}-partition-3"
    assert NAMES.text(f"({TOPIC}-partition-9)") == f"({name}-partition-9)"


def test_topics_with_odd_characters_are_found() -> None:
    masked = NAMES.text("on with space, on ends. too")
    assert "with space" not in masked
    assert "ends." not in masked
    mark = Pseudonyms(KEY, [TOPIC, ":"], short, base)  # every address contains a mark
    assert mark.text(f"{TOPIC} at 10.0.0.1:6650") == f"{mark.topic(TOPIC)} at {mark.host('10.0.0.1')}:6650"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("10.1.2.3:6650", "10.1.2.3"),
        ("[2001:db8::7]:6650", "2001:db8::7"),
        ("from 2001:db8::7 at once", "2001:db8::7"),
        ("pulsar://broker-1.acme.example:6650", "acme"),
        ("pulsar+ssl://[2001:db8::7]:6651, then", "2001"),
        ("http://admin/path", "admin"),
        ("the certificate of broker.acme.example expired", "acme"),
        ("persistent://other/ns/unseen has none", "unseen"),
        ("[topic=persistent://other/ns/unseen]", "unseen"),
        ("the client is 10.1.2.3.", "10.1.2.3"),
        ("the client is 2001:db8::7.", "2001:db8::7"),
        ("go to broker.acme.example.", "acme"),
        ("go to Broker.Acme.Example:6650", "Acme"),
        ("broker.acme.example/10.1.2.3:6650 refuses", "acme"),
        ("broker-acme/10.1.2.3:6650 refuses", "acme"),
        ("broker-acme:6650", "acme"),
        ("admin@broker.acme.example", "broker"),
        ("pulsar://name:word@broker.acme.example:6650", "acme"),
        ("[url=pulsar://broker.acme.example:6650]", "acme"),
        ("broker.acme.example/admin/v2", "acme"),
    ],
)
def test_addresses_and_hosts_are_hidden(text: str, hidden: str) -> None:
    assert hidden not in NAMES.text(text)


@pytest.mark.parametrize(
    "text",
    ["frame 0:30.2", "5.46 s of 10:20:30", "SEND 96:0", "version 4.2.4", "12 messages", "id:12", "org.apache.pulsar.Client$Error", ""],
)
def test_all_else_stays(text: str) -> None:
    assert NAMES.text(text) == text


def test_pseudonyms_depend_on_the_key_alone() -> None:
    assert Pseudonyms(KEY, []).text(TOPIC) == Pseudonyms(KEY, [], short, base).text(TOPIC) == NAMES.text(TOPIC)
    assert Pseudonyms(b"another key 1234", [TOPIC]).text(TOPIC) != NAMES.text(TOPIC)
    assert NAMES.host("10.1.2.3") in NAMES.text("10.1.2.3:6650")


def test_a_topic_without_a_name_is_nowhere_in_a_text() -> None:
    names = Pseudonyms(b"k" * 32, ["", "orders"])
    assert names.text("") == ""
    assert names.text("3 messages of orders") == f"3 messages of {names.topic('orders')}"


def test_names_are_found_in_sentences_as_they_stand_there() -> None:
    names = Pseudonyms(
        KEY, [TOPIC], names={"billing": "subscription", "s": "subscription", "b": "consumer", "7": "producer", "two words": "consumer"}
    )
    masked = names.text(f"Consumer 0 (b) of subscription s on {TOPIC} waits 7 s; a of billing, two words.")
    assert masked == (
        f"Consumer 0 ({names.named('consumer', 'b')}) of subscription {names.named('subscription', 's')} on {names.topic(TOPIC)} "
        f"waits 7 s; a of {names.named('subscription', 'billing')}, {names.named('consumer', 'two words')}."
    )
