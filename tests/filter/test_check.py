"""Invalid filters and their error messages; the meaning of a filter for a kind of rows."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pulsarscope.filter import Filter, FilterError
from pulsarscope.filter.check import Checker
from pulsarscope.filter.expression import Always, And, Compare, FieldPath, KeyStep, Not, Or, Present
from pulsarscope.filter.syntax import parse
from pulsarscope.model.limits import FILTER_DEPTH_MAX, FILTER_MAX_CHARACTERS, FILTER_PATTERN_MAX_CHARACTERS
from tests.filter.samples import CATALOGUE, KINDS, make
from tests.scenarios import rows

ERRORS = [
    # filter, problem, marked part
    ("comand == SEND", 'unknown field "comand" in frame records; did you mean command?', "comand"),
    ("topc == 1", "did you mean topic or topics?", "topc"),
    ("Topic == 1", "did you mean topic or topics?", "Topic"),
    ("producer_nam == 1", "did you mean producer_name, fields.producerName or PRODUCER?", "producer_nam"),
    ("xyzzy", 'unknown field "xyzzy" in frame records; pulsarscope fields lists them', "xyzzy"),
    ("metadata.producername", "did you mean metadata.producer_name", "producername"),
    ("producer_id == 1", "not of frame records: write fields.producer_id, or use decode --records message", "producer_id"),
    ("send.sequence == 1", "did you mean SEND.sequence_id", "sequence"),
    ("topic.name", 'unknown field "topic.name"', "name"),
    ("key", "key is a field of message and exchange records, not of frame records: use decode --records message", "key"),
    ("message.consumer_id == 1", "write MESSAGE for the command", "message.consumer_id"),
    ("exchange", "exchange is a field of exchange records", "exchange"),
    ("connection.client", "connection.client is a field of connection records", "connection.client"),
    ("command == SENDD", 'command is never "SENDD"; did you mean SEND?', "SENDD"),
    ("command == 6", "command is one of CONNECT, CONNECTED, ", "6"),
    ("command > SEND", "command has no order", "command"),
    ("command in {SEND..ACK}", "command has no order", "SEND"),
    ("status == fine", 'status is never "fine"; known: ok, malformed, truncated, skipped', "fine"),
    ("finding == stream-gob", "did you mean stream-gap", "stream-gob"),
    ("topic == orders", 'topic is compared with text in quotes: "orders"', "orders"),
    ("client == 10.0.0.1", "client is an address with its port: write client.ip", "10.0.0.1"),
    ("topic == 5", "topic is compared with text in quotes, as in", "5"),
    ("size == big", "size is compared with a number", "big"),
    ('size == "5"', "size is compared with a number", '"5"'),
    ("size > 50ms", "size is compared with a number", "50ms"),
    ("size == 99999999999999999999", "does not fit into 64 bits", "99999999999999999999"),
    ("size > 18446744073709551615", "does not fit into 64 bits", "18446744073709551615"),
    ("size > 9999999999GiB", "too large", "9999999999GiB"),
    ("latency > 50", "latency is compared with a duration with its unit", "50"),
    ("time > yesterday", "time is compared with a time", "yesterday"),
    ("time > 2026-13-01", "invalid time", "2026-13-01"),
    ('time > "noon"', "invalid time", '"noon"'),
    ("time > 1e300", "the time is too large", "1e300"),
    ("ip == 10.0.0.300", "invalid address or network", "10.0.0.300"),
    ("ip > 10.0.0.1", "ip has no order", "ip"),
    ("connection > #2", "connection has no order", "connection"),
    ("request < '0:12.1'", "request has no order", "request"),
    ("ip == 7", "ip is compared with an address", "7"),
    ("metadata == 5", "metadata is an object: name one of its fields, producer_name", "5"),
    ('metadata contains "x"', "metadata is neither text nor bytes", '"x"'),
    ("size contains 5", "size is neither text nor bytes", "5"),
    ('size matches "5"', "size is neither text nor bytes", '"5"'),
    ("topic contains orders", "contains takes text in quotes", "orders"),
    ("metadata.schema_version == 5", "invalid bytes", "5"),
    ("size[0:4] == 5", "size is neither text nor bytes: it has no parts by position", "size[0:4]"),
    ('topic["x"] == "y"', "topic has no entries by key", '"x"'),
    ('topic matches "(a"', 'invalid regular expression "(a": missing )', '"(a"'),
    ('topic matches "*"', 'invalid regular expression "*": no argument for repetition operator', '"*"'),
    ('topic matches "a(?=b)"', 'invalid regular expression "a(?=b)": invalid perl operator at "(?="', '"a(?=b)"'),
    ('topic == "\\q"', "\\q is an unknown escape", "\\q"),
    ('topic == "a\\u12"', "\\u is an unknown escape", "\\u"),
    ("send.is_chunk == yes", "is_chunk is compared with true or false", "yes"),
    ("send.is_chunk > true", "is_chunk has no order", "send.is_chunk"),
    ("frame > 5", "frame is a kind of records", "frame"),
    ("packet in {1..3, 9..3}", "the range is empty: give the smaller value first", "9"),
    ("time in {2s..500ms}", "the range is empty", "2s"),
    ('topic in {"b".."a"}', "the range is empty", '"b"'),
    ("time in {1s..2026-05-01}", "both ends of a range", "2026-05-01"),
    ("len(size) == 1", "size is neither text nor bytes: it has no length; use count(size)", "len(size)"),
    ("count(frame) == 1", "frame is not a field: count takes one, as in count(topic)", "count(frame)"),
    ("count(ack) == 1", "ACK is not a field: count takes one", "count(ack)"),
    ("len(topic) == true", "a number", "true"),
    ("len(topic) contains 1", "len(topic) is neither text nor bytes", "1"),
    ("all(comand == SEND)", 'unknown field "comand"', "comand"),
    # not a sentence of the language
    ("len(topic)", "an operator is expected here", ""),
    ("len(5) == 1", "the name of a field is expected here", "5"),
    ("all(topic)", "an operator is expected here", ")"),
    ("any(size == 5", "a closing parenthesis is missing", ""),
    ("command ==", "a value is expected here", ""),
    ("command = SEND", "= is not an operator: write == to compare", "="),
    ("command === SEND", "= is not an operator", "="),
    ("== 5", "the name of a field is expected here", "=="),
    ("size 5", "an operator is expected here: == != < <= > >= contains matches in, or and, or", "5"),
    ('topic contians "x"', "and, or; did you mean contains?", "contians"),
    ('topic matchs "x"', "and, or; did you mean matches?", "matchs"),
    ("size == 5 adn size == 6", "the end is expected here", "adn"),
    ("size == 5 annd size == 6", "the end is expected here; did you mean and?", "annd"),
    ("size == 5 6", "and, or, or the end is expected here", "6"),
    ("latency > 5mss", "5mss is neither a number nor one with a unit, as in 50ms or 4KiB", "5mss"),
    ("size in {4KiB, 5XB}", "5XB is neither a number", "5XB"),
    ("latency > 5 ms", "the unit ms stands right behind its number, without a space", "ms"),
    ("payload_size > 2  MiB and topic", "the unit MiB stands right behind its number, without a space", "MiB"),
    ("size == 5 command", "and, or, or the end is expected here", "command"),
    ("(size == 5", "a closing parenthesis is missing", ""),
    ("size == 5)", "unexpected text after the end", ")"),
    ('topic =~ "x"', "=~ is not an operator: write matches", "="),
    ('topic~"x"', "~ is not an operator: write matches", "~"),
    ("topic ~", "~ is not an operator: write matches", "~"),
    ('topic ~ "x"', "~ is not an operator: write matches", "~"),
    ("size & 5", "& is not an operator: write && or and", "&"),
    ("size | 5", "| is not an operator: write || or or", "|"),
    ('topic == "abc', "the text has no closing quote", '"'),
    ("topic matches abc", "a regular expression in quotes is expected here", "abc"),
    ("size in 5", "a set in braces is expected here", "5"),
    ("size in {5", "a comma or the closing brace of the set is expected here", ""),
    ("size in {}", "a value is expected here", "}"),
    ("topic[", "a key in quotes, or positions as in [0:4], are expected here", ""),
    ("topic[0", "a closing bracket is expected here", ""),
    ("topic[x]", "a key in quotes, or positions", "x"),
    ("command == SEND &&", "the name of a field is expected here", ""),
    ("# all", "the name of a field is expected here", "#"),
]


@pytest.mark.parametrize("text", ["", "  ", "\t\n"])
def test_of_an_empty_filter_nothing_is_shown(text: str) -> None:
    with pytest.raises(FilterError, match="the filter is empty") as refused:
        make(text, "frame")
    assert refused.value.lines == (refused.value.reason,)


@pytest.mark.parametrize(("text", "reason", "marked"), ERRORS, ids=[text for text, _, _ in ERRORS])
def test_what_is_wrong_is_said_and_shown(text: str, reason: str, marked: str) -> None:
    with pytest.raises(FilterError) as refused:
        make(text, "frame")
    assert reason in refused.value.reason
    first, shown, mark = refused.value.lines
    assert first == refused.value.reason
    assert shown == f"  {text}"
    start = mark.index("^")
    assert shown[start : len(mark)] == marked or (marked == "" and start == len(shown))
    assert str(refused.value) == f"{first}\n{shown}\n{mark}"


def test_wrong_usage_is_exit_code_two() -> None:
    assert FilterError("x", "y", (0, 1)).exit_code == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x" * (FILTER_MAX_CHARACTERS + 1), "characters"),
        ("(" * 5_000 + "size" + ")" * 5_000, "deep"),
        ("!" * 9_000 + "size", "deep"),
        ("not " * (FILTER_DEPTH_MAX + 1) + "size", "deep"),
        (f'topic matches "{"a" * (FILTER_PATTERN_MAX_CHARACTERS + 1)}"', "longer than"),
        (f'topic matches "{"(" * 999}"', "invalid regular expression"),
        ('topic matches "(?P<a"', "invalid regular expression"),
        ('topic matches "(?=a)"', "invalid regular expression"),
        ('topic matches "(a)\\1"', "invalid regular expression"),
        ("a" + ".b" * 8_000, "unknown field"),
        ("[" * 16_000, "expected here"),
        ("size == " + "9" * 16_000, "too large"),
    ],
    ids=lambda value: value[:20],
)
def test_hostile_filters_are_refused_soon(text: str, reason: str) -> None:
    start = time.process_time()
    with pytest.raises(FilterError) as refused:
        make(text)
    assert reason in refused.value.reason
    assert len(refused.value.lines) == 3
    assert max(map(len, refused.value.lines[1:])) < 150
    assert time.process_time() - start < 5


def test_what_may_be_large_is() -> None:
    for text in (
        " or ".join(["size == 5"] * 1_000),
        "(" * FILTER_DEPTH_MAX + "size == 5" + ")" * FILTER_DEPTH_MAX,
        "size in {" + ", ".join(map(str, range(2_000))) + ", 5}",
    ):
        five = rows.frame(size=5)
        assert make(text, "frame").select([rows.frame(size=-1), five], {}) == [five]


WORDS = st.sampled_from(
    [
        *("command", "topic", "size", "metadata", "metadata.producer_name", "send.sequence_id", "time", "ip", "value.a", "finding"),
        *("==", "!=", "<", ">=", "contains", "matches", "in", "not", "!", "and", "&&", "or", "||", "(", ")", "{", "}", "..", ",", "[", "]"),
        *(
            "SEND",
            '"a"',
            "'b'",
            "5",
            "-1",
            "0x1f",
            "1.5",
            "50ms",
            "4KiB",
            "0a:0b",
            "true",
            "2026-05-01",
            "10.0.0.0/8",
            "ok",
            "\\",
            '"',
            ":",
        ),
    ]
)


@given(st.one_of(st.text(), st.lists(WORDS, max_size=14).map(" ".join), st.lists(WORDS, max_size=8).map("".join)))
@example("time > 0001-01-01T00:00:00+23:59")
@example("time > 9999-12-31T23:59:59-23:59")
@example('time > "2026-05-01T10:00:00.½Z"')
@example('topic == "\\ud800"')
@example('topic matches "\ud800"')
@example("size == 1e999")
@example("a\x1b[31m == 5")
@example("ordering_key == 0x0")
def test_any_text_is_a_filter_or_is_refused_in_one_line_with_a_mark(text: str) -> None:
    try:
        made = Filter(text, KINDS, CATALOGUE)
    except FilterError as error:
        if not text.strip():
            return
        first, shown, mark = error.lines
        assert first.isprintable()
        assert first
        assert shown.isprintable()
        assert mark.strip(" ~") == "^"
    else:
        assert made.trees.keys() == set(KINDS)


# ---- meaning

SIZE = Compare(FieldPath("size", "size", (), ("int64",)), "==", 5)
TOPIC = Compare(FieldPath("topic", "topic", (), ("string",)), "==", "a")
FRAME_TOPIC = Compare(FieldPath("topic", "frame.topic", (), ("string",), many=True), "==", "a")


def meaning(text: str, kind: str = "frame") -> object:
    return Checker(text, CATALOGUE).meaning(parse(text), kind)


def test_negations_stand_at_the_leaves() -> None:
    assert meaning("size == 5") == SIZE
    assert meaning("not size == 5") == Not(SIZE)
    assert meaning('not (size == 5 and topic == "a")') == Or((Not(SIZE), Not(FRAME_TOPIC)))
    assert meaning('not (size == 5 or not topic == "a")') == And((Not(SIZE), FRAME_TOPIC))


def test_a_kind_without_the_field_is_never_shown_by_it() -> None:
    assert meaning("size == 5", "message") == Always(False)
    assert meaning("not size == 5", "message") == Always(False)
    assert meaning('size == 5 or topic == "a"', "message") == TOPIC
    assert meaning('size == 5 and topic == "a"', "message") == Always(False)
    assert meaning('not (size == 5 and topic == "a")', "message") == Not(TOPIC)


def test_a_kind_of_rows_is_a_test() -> None:
    assert meaning("frame") == Always(True)
    assert meaning("not frame") == Always(False)
    assert meaning("message") == Always(False)
    assert meaning("not message") == Always(False)


def test_names_become_columns_and_steps() -> None:
    assert meaning("latency") == Present(FieldPath("latency", "latency_ns", (), ("duration",)))
    assert meaning("send.sequence_id") == Present(FieldPath("send.sequence_id", "fields", ("sequence_id",), ("int64",), False, "SEND"))
    expected = FieldPath('metadata.properties["a"]', "metadata", ("properties", KeyStep("a")), ("string",), True)
    assert meaning('metadata.properties["a"]') == Present(expected)
    assert meaning("frame.finding.severity") == Present(FieldPath("frame.finding.severity", "finding.severity", (), ("string",), True))
