"""Live rows in the library, as an asynchronous iterator."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.api.options import AnyPath, library_options
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import FindingRow, FrameRow, Row, refuse_unknown, with_addresses

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pulsarscope.live.feed import LiveFeed
    from pulsarscope.live.pipe import PipeFeed


async def listen(
    interface: str = "any",
    *kinds: str,
    filter: str | None = None,  # noqa: A002 - as -Y is called
    capture_filter: str | None = None,
    show_secrets: bool = False,
    payload: str | None = None,
    ports: Collection[int] = (),
    decode_as: Mapping[int, str] | None = None,
    tls_keylog: AnyPath | Sequence[AnyPath] = (),
    private_key: AnyPath | Sequence[AnyPath] = (),
    schemas: Mapping[str, AnyPath] | None = None,
    names: AnyPath | Sequence[AnyPath] = (),
    thresholds: Mapping[str, float] | None = None,
) -> AsyncGenerator[Row, None]:
    """Iterate over rows as they happen: `async for row in ps.listen("eth0")`. It captures until it is closed or its task is cancelled.

    If rows are taken too slowly, packets are skipped, and a finding says so. To end the capture at once when a loop is left early, iterate
    inside `async with contextlib.aclosing(…)`.

    Args:
        interface: name, or `any` for all, which needs CAP_NET_RAW; or a capture from a pipe: its path, or `-` for standard input.
        kinds: frame (by default), message, exchange, connection, finding, journey.
        filter: display filter of the rows.
        capture_filter: packet filter in the syntax of tcpdump; by default the ports of the known protocols, and `ports`.
        show_secrets: as in `open`, like all options below.
        payload: form of MessageRow.payload.
        ports: server ports to decode as Pulsar.
        decode_as: names of protocols by server port.
        tls_keylog: files with secrets of TLS connections, read once.
        private_key: RSA keys of messages.
        schemas: schema files by topic.
        names: files that name the topics of ledgers.
        thresholds: limits that decide findings.

    Raises:
        UsageError: the interface cannot be captured, or an option has an invalid value.
        CaptureError: a pipe does not carry a capture.
    """
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    chosen = frozenset(kinds or (FrameRow.kind,))
    refuse_unknown(chosen)
    options = library_options(show_secrets, payload, ports, decode_as, tls_keylog, private_key, (), schemas, names, thresholds)
    options = msgspec.structs.replace(options, records=chosen, rules=FindingRow.kind in chosen, live=True, rows_max=ROWS_MAX)
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, "pulsarscope") as worker:  # one step at a time: a slow reader delays decoding, and memory does not grow
        opening = worker.submit(_Listening, interface, options, filter, capture_filter)
        try:
            live = await asyncio.wrap_future(opening)
            while (rows := await loop.run_in_executor(worker, live.take)) is not None:
                for row in rows:
                    yield row
        finally:
            # A task may be cancelled while it opens the source.
            opening.add_done_callback(lambda opened: _end(opened, lambda live: live.feed.stop()))
            await asyncio.shield(loop.run_in_executor(worker, _end, opening, _Listening.close))


class _Listening:
    """A capture that is being decoded. One thread makes all calls except `feed.stop`."""

    def __init__(self, interface: str, options: Any, filter_text: str | None, capture_filter: str | None) -> None:
        """Open the source. Raises UsageError."""
        from pulsarscope.engine.local import run_blocks
        from pulsarscope.filter import Catalogue, Filter
        from pulsarscope.live.feed import LiveFeed
        from pulsarscope.live.pipe import PipeFeed
        from pulsarscope.live.sources_by_name import is_pipe, open_source
        from pulsarscope.protocols import make_dissectors

        dissectors = make_dissectors()
        self._kinds = options.records
        self._filter = None
        if filter_text is not None:
            self._filter = Filter(filter_text, tuple(sorted(self._kinds)), Catalogue.of(dissectors), payload=options.payload)
            options = msgspec.structs.replace(options, payload=self._filter.payload, records=with_addresses(self._kinds))
        if is_pipe(interface):
            self.feed: LiveFeed | PipeFeed = PipeFeed(interface)
        else:
            known = {port for dissector in dissectors for port in dissector.ports}
            source = open_source(interface, known | options.ports | set(options.decode_as), capture_filter=capture_filter)
            self.feed = LiveFeed(source, forks=False)  # a library forks no process that has threads
            self.feed.start()
        self._run = run_blocks(self.feed.name, self.feed, options)
        self._batches = iter(self._run)
        if self._filter is not None:
            self._filter.begin(self._run)

    def take(self) -> Iterator[Row] | None:
        """Return the next rows; None at the end of a pipe, or of the packets captured before `stop`."""
        if (batch := next(self._batches, None)) is None:
            return None
        rows = batch.rows if self._filter is None else self._filter.select(batch.rows, self._run.endpoints)
        return (row for row in rows if row.kind in self._kinds)

    def close(self) -> None:
        """End the capture."""
        self._batches.close()
        self.feed.close()


def _end(opening: Future[_Listening], end: Callable[[_Listening], None]) -> None:
    """Call `end` on a capture, if it was opened."""
    if not opening.cancelled() and opening.exception() is None:
        end(opening.result())
