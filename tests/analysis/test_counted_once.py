"""Repeated rows of a path that began before the capture: which are kept, in what order, and how long they wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import chain, groupby, pairwise
from pathlib import Path as FilePath
from typing import Any

import pytest

from pulsarscope.analysis import counted_once as module
from pulsarscope.analysis.counted_once import QUIET_SECONDS, CountedOnce, mark_of
from pulsarscope.analysis.statistics import SECTIONS, Statistics
from pulsarscope.dissect.contract.legs import AnchorRow
from pulsarscope.engine import parallel
from pulsarscope.model.limits import HELD_ROWS_MAX
from pulsarscope.model.ordered_rows import split
from pulsarscope.model.records import FindingRow, FrameRow, MessageRow
from pulsarscope.model.row_lists import EntryMessages
from tests.places import CAPTURES
from tests.scenarios.both_readers import blocks_of, reader
from tests.scenarios.capturefile import Packet, write_pcap
from tests.scenarios.commands import TOPIC, ack, close_producer, created, delivery, flow, receipt, send, subscribe, success
from tests.scenarios.connections import connected
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import command_frame
from tests.scenarios.legs import HOSTS, Path
from tests.scenarios.options import Options

KINDS = frozenset({"frame", "message", "finding", "connection"})

IN_COLUMNS = Options(frozenset({"frame", "exchange", "connection", "finding"}), anchors=True, columns=True)

BLOCKS = (None, 4096, 1024)


def rows_of(path: FilePath) -> list[Any]:
    return [row for batch in parallel.run([str(path)], Options(KINDS, rules=True, anchors=True), 1) for row in batch.rows]


def kept(rows: list[Any], sizes: tuple[int, ...] = (1_000_000,), **options: Any) -> list[Any]:
    """The kept rows, fed in batches of these sizes in turn."""
    once, at = CountedOnce(**options), 0
    out: list[Any] = []
    while at < len(rows):
        size = sizes[len(out) % len(sizes)]
        out += once.kept(rows[at : at + size])
        at += size
    return out + once.rest()


def entries(rows: list[Any]) -> list[int | None]:
    return [row.entry for row in rows if isinstance(row, MessageRow)]


def path_without_beginning(folder: FilePath, count: int, *, hosts: str = "one host", together: int = 1) -> list[Any]:
    """The rows of a consumer behind a proxy that acknowledges `together` messages at once."""
    path = Path(hosts, midstream=True)
    for first in range(0, count, together):
        for entry in range(first, first + together):
            path.server(delivery(entry))
        path.wait(20 * MILLISECOND).client(ack(*range(first, first + together)))
    diagnose(folder, path.outer, path.inner)
    return rows_of(folder / "conversations.pcap")


@pytest.mark.parametrize("hosts", HOSTS)
@pytest.mark.parametrize("together", [1, 5, 40])
def test_deliveries_before_the_first_acknowledgment_are_kept_once(tmp_path: FilePath, hosts: str, together: int) -> None:
    rows = path_without_beginning(tmp_path, 40, hosts=hosts, together=together)
    assert len(entries(rows)) == 80
    assert entries(kept(rows)) == [*range(40)]


@pytest.mark.parametrize(("together", "acks"), [(1, 1), (1, 2), (5, 1), (5, 2), (40, 1), (40, 2), (40, 3), (70, 3)])
def test_few_acknowledgments_before_the_end_are_enough_where_all_speak_for_a_path(tmp_path: FilePath, together: int, acks: int) -> None:
    """Holds for messages and frames: rows for statistics wait until a connection can be a leg."""
    rows = path_without_beginning(tmp_path, acks * together, together=together)
    out = kept(rows, holds=True)
    assert entries(out) == [*range(acks * together)]
    frames = [row.connection for row in out if isinstance(row, FrameRow)]
    assert len(frames) == acks * (together + 1)
    assert len({*frames}) == 1


@pytest.mark.parametrize("sizes", [(1,), (7, 1, 30), (50,)])
@pytest.mark.parametrize("name", ["proxy-keyshared.pcap", "balancer.pcap"])
def test_however_rows_are_cut_into_batches_the_same_are_kept_in_their_order(name: str, sizes: tuple[int, ...]) -> None:
    rows = rows_of(CAPTURES / name)
    later = rows[len(rows) // 2 :]
    want = kept(later)
    assert kept(later, sizes) == want
    places = [(row.file, row.packet, row.sub) for row in want if isinstance(row, FrameRow)]
    assert all(first <= second for first, second in pairwise(places))


@pytest.mark.parametrize("bound", [1, 3, 1_000])
@pytest.mark.parametrize("hosts", HOSTS)
def test_messages_of_several_entries_are_kept_as_their_rows_are(
    tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch, hosts: str, bound: int
) -> None:
    monkeypatch.setattr(module, "EARLY_MESSAGES_MAX", bound)
    for rows in (path_without_beginning(tmp_path, 40, hosts=hosts, together=5), two_subscriptions(tmp_path, 30, MILLISECOND)):
        messages = [row for row in rows if not isinstance(row, FrameRow)]
        want = kept(messages)
        for sizes in ((1_000_000,), (3, 1)):
            assert each_row(kept(together(messages), sizes)) == want
        for name in {row.connection for row in messages if isinstance(row, MessageRow)}:
            out = [each for row in messages for each in (together([row]) if getattr(row, "connection", None) == name else [row])]
            assert each_row(kept(out)) == want


def each_row(rows: list[Any]) -> list[Any]:
    return [row for each in rows for row in (each.rows() if type(each) is EntryMessages else [each])]


def together(rows: list[Any]) -> list[Any]:
    """The rows, with neighbouring messages of one connection in one object, even a single one."""
    out: list[Any] = []
    for (is_message, _), group in groupby(rows, lambda row: (isinstance(row, MessageRow), getattr(row, "connection", None))):
        of_group = [*group]
        if is_message:
            columns = {name: [getattr(row, name) for row in of_group] for name in MessageRow.__struct_fields__ if name != "connection"}
            del columns["direction"]
            shared = MessageRow(connection=of_group[0].connection, direction=of_group[0].direction, time=of_group[0].time)
            out.append(EntryMessages(shared, len(of_group), columns))
        else:
            out += of_group
    return out


def test_rows_in_another_form_are_selected_alike(tmp_path: FilePath) -> None:
    rows = path_without_beginning(tmp_path, 20, together=5)
    once = CountedOnce(mark=lambda value: mark_of(value[0]))
    selected = [value for row in rows for value in once.selected([row if isinstance(row, AnchorRow) else (row, "form")])]
    selected += once.rest_of_selected()
    assert [row for row, _ in selected if isinstance(row, MessageRow)] == [row for row in kept(rows) if isinstance(row, MessageRow)]


def two_subscriptions(folder: FilePath, count: int, pause: int) -> list[Any]:
    """The rows of two consumers of one topic with the same id, on one broker, that acknowledge nothing."""
    talks = [Conversation(("10.0.0.1", 40000 + number), ("10.0.0.2", 6650), acknowledge=False, step_ns=1000) for number in range(2)]
    for entry in range(count):
        for talk in talks:
            talk.wait(pause).server(delivery(entry))
    diagnose(folder, *talks)
    return rows_of(folder / "conversations.pcap")


def waiting(rows: list[Any]) -> tuple[list[Any], int]:
    """The kept rows, fed one at a time, and the largest number of waiting rows."""
    once, most = CountedOnce(), 0
    out: list[Any] = []
    for row in rows:
        out += once.kept([row])
        most = max(most, len(once._looked) + len(once._unseen))
    return out + once.rest(), most


@pytest.mark.parametrize(
    ("bound", "value"), [("UNDECIDED_NANOSECONDS_MAX", SECOND // 2), ("UNDECIDED_ROWS_MAX", 30), ("UNDECIDED_MAX_BYTES", 1_000)]
)
def test_what_is_no_path_waits_once_and_all_of_it_is_kept(
    tmp_path: FilePath, bound: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = two_subscriptions(tmp_path, 100, 10 * MILLISECOND)
    monkeypatch.setattr(module, bound, value)
    out, most = waiting(rows)
    assert out == [row for row in rows if not isinstance(row, AnchorRow)]
    assert 10 < most <= 210


def test_a_finding_about_a_file_has_no_time_and_stays(tmp_path: FilePath) -> None:
    rows = two_subscriptions(tmp_path, 10, 10 * MILLISECOND)
    finding = FindingRow(code="capture-truncated", severity="error", layer="capture", text="The gzip file is cut.")
    for at in range(0, len(rows) + 1, 7):
        mixed = [*rows[:at], finding, *rows[at:]]
        assert kept(mixed) == [row for row in mixed if not isinstance(row, AnchorRow)]


@pytest.mark.parametrize("follows", [0, 1, 5])
def test_live_rows_wait_while_others_come_and_no_longer_than_a_second_when_none_do(tmp_path: FilePath, follows: int) -> None:
    rows = two_subscriptions(tmp_path, 10, 0)
    now = 100.0
    once = CountedOnce(clock=lambda: now)
    out = once.kept(rows[:3])
    for row in rows[3 : 3 + follows]:
        now += QUIET_SECONDS - 0.1
        out += once.kept([row])
        out += once.kept([])
    assert len(out) == 2
    now += QUIET_SECONDS + 0.1
    out += once.kept([])
    assert out == [row for row in rows[: 3 + follows] if not isinstance(row, AnchorRow)]


@pytest.mark.parametrize("hosts", HOSTS)
def test_live_deliveries_before_the_first_acknowledgment_are_kept_once(tmp_path: FilePath, hosts: str) -> None:
    rows = path_without_beginning(tmp_path, 40, hosts=hosts, together=5)
    assert entries(kept(rows, (1, 7), clock=lambda: 0.0)) == [*range(40)]


def test_frames_that_are_shown_of_all_legs_do_not_wait(tmp_path: FilePath) -> None:
    rows = [row for row in two_subscriptions(tmp_path, 10, 0) if not isinstance(row, MessageRow)]
    once = CountedOnce(shown=frozenset({"frame"}))
    assert sum(len(once.kept([row])) for row in rows) == sum(not isinstance(row, AnchorRow) for row in rows)


def test_the_ends_of_a_connection_are_known_while_its_rows_wait(tmp_path: FilePath) -> None:
    rows = path_without_beginning(tmp_path, 3, together=3)
    names = {row.connection for row in rows}
    once = CountedOnce()
    for row in rows:
        once.kept([row], {name: (name, name) for name in names})
        if once._looked or once._unseen:
            break
    once.kept([], {})
    assert {once.endpoints[name] for name in once.endpoints} <= {(name, name) for name in names}
    assert once.endpoints


@pytest.mark.parametrize("holds", [False, True])
def test_a_frame_that_waited_is_left_out_where_its_own_connection_turns_out_to_be_an_inner_leg(tmp_path: FilePath, holds: bool) -> None:
    """With three legs, the middle one is known as a leg of the outer one before the innermost is known as a leg of it."""
    path = Path("one host", midstream=True)
    outermost = Conversation(("127.0.0.1", 30000), ("127.0.0.1", 6649), acknowledge=False, step_ns=1_000)
    for entry in range(4):
        path.server(delivery(entry))
        outermost.time_ns = path.outer.time_ns
        outermost.server(delivery(entry))
        path.wait(MILLISECOND)
    for entry in range(4):
        outermost.time_ns = path.outer.time_ns
        outermost.client(ack(entry))
        path.wait(MILLISECOND).client(ack(entry))
    diagnose(tmp_path, path.outer, path.inner, outermost)
    rows = rows_of(tmp_path / "conversations.pcap")
    middle = next(row.connection for row in rows if isinstance(row, FrameRow) and row.direction == "server" and row.packet == 2)
    assert middle not in {row.connection for row in kept(rows, holds=holds) if isinstance(row, FrameRow)}


def test_a_message_that_is_delivered_again_from_a_position_counts_after_legs_are_known_late(tmp_path: FilePath) -> None:
    """Two connections seemed unrelated, and each had a copy of the message; the outer one gets it anew after a seek."""
    path = Path("one host", midstream=True)
    path.server(delivery(0)).server(delivery(1)).wait(2 * SECOND)
    path.client(ack(0)).client(ack(1))
    for entry in range(2, 6):
        path.server(delivery(entry)).client(ack(entry))
    path.server(delivery(0))
    diagnose(tmp_path, path.outer, path.inner)
    assert entries(kept(rows_of(tmp_path / "conversations.pcap")))[-5:] == [2, 3, 4, 5, 0]


def publishing(port: int, count: int = 2, *, wait: int = 0, name: str = "p") -> Conversation:
    """A connection of a client that publishes `count` messages, and closes."""
    talk = connected(port).wait(wait).client(command_frame("PRODUCER", topic=f"{TOPIC}-{port % 3}", producer_id=1, request_id=2))
    talk.server(created(f"{name}-{port % 7}", 2))
    for number in range(count):
        talk.client(send(1, number)).server(receipt(1, number, entry=number))
    return talk.client(close_producer(1, 6)).server(success(6)).close()


def consuming(port: int, count: int, *, wait: int = 0) -> Conversation:
    """A connection of a client that gets `count` messages."""
    talk = connected(port).wait(wait).client(subscribe(4, "c", 3), flow(9, 4)).server(success(3))
    for number in range(count):
        talk.server(delivery(number, 4)).client(ack(number, number=4))
    return talk


def path(port: int, count: int = 3, **more: Any) -> Path:
    """A path through a proxy."""
    made = Path(port=port, start=port * SECOND // 100, **more)
    made.client(command_frame("PRODUCER", topic=TOPIC, producer_id=1, request_id=2)).server(created(f"on-a-path-{port}", 2))
    for number in range(count):
        made.client(send(1, number)).server(receipt(1, number, ledger=7 + port, entry=number))
    return made.close()


def packets_of(*talks: Conversation | Path) -> list[Packet]:
    """Packets of conversations and paths, in the order of their times."""
    conversations = chain.from_iterable((talk.outer, talk.inner) if isinstance(talk, Path) else (talk,) for talk in talks)
    return sorted(chain.from_iterable(each.packets for each in conversations), key=lambda packet: packet.time_ns)


def short() -> list[Packet]:
    """Many short connections over more time than rows are held, and one that is quiet for long."""
    return packets_of(*(publishing(40000 + number, wait=number * SECOND // 3) for number in range(60)), publishing(50000, wait=9 * SECOND))


def long() -> list[Packet]:
    """Connections with more frames than are held, and with more messages than are examined."""
    return packets_of(publishing(40000, HELD_ROWS_MAX), publishing(40001, 70), *(publishing(40100 + n, wait=n * SECOND) for n in range(9)))


def proxied() -> list[Packet]:
    """Short connections, and paths among them."""
    paths = (path(number, proxy=("pulsar", "balancer")[number % 2], hosts=("apart", "translated")[number % 2]) for number in range(20))
    return packets_of(*paths, *(publishing(41000 + number, wait=number * SECOND // 9) for number in range(30)))


def consumed() -> list[Packet]:
    """Short connections, and among them consumers whose first messages must be examined."""
    consumers = (consuming(42000 + number, 5 + 80 * (number == 1), wait=number * SECOND) for number in range(4))
    return packets_of(*consumers, *(publishing(41000 + number, wait=number * SECOND // 9) for number in range(60)))


def in_rows(rows: Sequence[Any]) -> list[Any]:
    """The rows, including those in columns."""
    ordered, following = split(rows)
    return [*rows] if ordered is None else [*ordered.all(), *following]


def check(file: FilePath, size: int | None, *, holds: bool) -> tuple[int, list[Any]]:
    """The number of batches whose columns were kept, and all omitted rows, of a capture that is read in blocks of this size."""
    with reader("require"), blocks_of(size):
        return check_batches((batch.rows for batch in parallel.run([str(file)], IN_COLUMNS, 1)), holds=holds)


def check_batches(batches: Iterable[Sequence[Any]], *, holds: bool) -> tuple[int, list[Any]]:
    """The same for batches of rows."""
    by_columns, by_rows = (CountedOnce(holds=holds) for _ in range(2))
    of_columns, of_rows = (Statistics(outer_of=once.outer_of) for once in (by_columns, by_rows))
    left: list[Any] = []
    in_columns = 0
    for rows in chain(batches, (None,)):
        kept = by_columns.rest() if rows is None else by_columns.kept(rows)
        in_columns += split(kept)[0] is not None
        expected = by_rows.rest() if rows is None else by_rows.kept(in_rows(rows))
        assert in_rows(kept) == expected
        assert by_columns.inner == by_rows.inner
        assert [*by_columns.outer_of] == [*by_rows.outer_of]
        for statistics, counted, inner in ((of_columns, kept, by_columns.inner), (of_rows, expected, by_rows.inner)):
            statistics.feed_batch(counted)
            statistics.feed_inner(inner)
        assert of_columns.sections(SECTIONS) == of_rows.sections(SECTIONS)
        left += by_rows.inner
    return in_columns, left


@pytest.mark.skipif(find_spec("pulsarscope_native") is None, reason="pulsarscope-native is not installed")
@pytest.mark.parametrize("size", BLOCKS)
@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("make", [short, long, proxied, consumed])
def test_columns_are_counted_as_rows_are(tmp_path: FilePath, make: Any, size: int | None, *, holds: bool) -> None:
    file = write_pcap(tmp_path / "in.pcap", make())
    in_columns, left = check(file, size, holds=holds)
    assert in_columns
    assert any(type(row) is FrameRow for row in left) == (make is proxied)


@pytest.mark.parametrize("make", [short, proxied])
def test_first_frames_of_so_many_connections_wait_at_most(tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    monkeypatch.setattr("pulsarscope.analysis.counted_once.HELD_CONNECTIONS_MAX", 3)
    file = write_pcap(tmp_path / "in.pcap", make())
    once, held = CountedOnce(holds=True), set()
    with reader("off"):
        for batch in parallel.run([str(file)], IN_COLUMNS, 1):
            for row in batch.rows:
                once.kept([row])
                held.add(len(once._held or {}))
    assert max(held) == 3
    if find_spec("pulsarscope_native") is not None:
        for size in BLOCKS:
            assert check(file, size, holds=True)[0]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pulsarscope_native") is None, reason="pulsarscope-native is not installed")
@pytest.mark.parametrize("file", sorted(CAPTURES.rglob("*.pcap*")), ids=lambda file: file.name)
def test_columns_of_captures_are_counted_as_rows_are(file: FilePath) -> None:
    for holds in (True, False):
        check(file, 4096, holds=holds)
