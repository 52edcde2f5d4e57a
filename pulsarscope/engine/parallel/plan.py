"""Which files share a connection, and which process gets which files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from pulsarscope.capture import read_blocks
from pulsarscope.model.flow import reverse_key
from pulsarscope.model.limits import JOB_FLOWS_MAX

Flows = AbstractSet[bytes] | None
"""One key for both directions of each 4-tuple in a file; None: too many to tell."""


class Survey(NamedTuple):
    """What is to be known of a file before it is decoded."""

    flows: Flows
    key_logs: list[tuple[int, bytes]]
    """TLS secrets in it, which may be those of connections in other files; with the number of packets before them."""


def survey(path: str) -> Survey:
    """Look through a file."""
    found: set[bytes] = set()
    key_logs: list[tuple[int, bytes]] = []
    blocks = read_blocks(path)
    for block in blocks:
        if len(found) <= JOB_FLOWS_MAX:
            found.update(min(key, reverse_key(key)) for key in block.flows)
        key_logs += blocks.take_secrets()
    return Survey(found if len(found) <= JOB_FLOWS_MAX else None, key_logs)


def groups(flows: Iterable[Flows], count: int) -> list[list[int]]:
    """The positions of `count` files, apart where no connection can span: those that share a 4-tuple, by whatever way, are together.

    A 4-tuple may be that of several connections, one after the other; keeping their files together is never wrong.
    """
    leader = list(range(count))

    def lead(file: int) -> int:
        while leader[file] != file:
            file = leader[file]
        return file

    first_with: dict[bytes, int] = {}
    for file, keys in enumerate(flows):
        for key in keys or ():
            one, other = lead(first_with.setdefault(key, file)), lead(file)
            leader[max(one, other)] = min(one, other)
        if keys is None or len(first_with) > JOB_FLOWS_MAX:
            return [list(range(count))]
    together: dict[int, list[int]] = {}
    for file in range(count):
        together.setdefault(lead(file), []).append(file)
    return list(together.values())


def shares(together: Sequence[Sequence[int]], sizes: Sequence[int], jobs: int) -> list[list[int]]:
    """The groups in at most `jobs` shares of about the same size; the largest groups are dealt out first."""
    dealt: list[list[int]] = [[] for _ in range(jobs)]
    loads = [0] * jobs
    for group in sorted(together, key=lambda group: -sum(sizes[file] for file in group)):
        least = loads.index(min(loads))
        loads[least] += sum(sizes[file] for file in group)
        dealt[least] += group
    return [sorted(share) for share in dealt if share]
