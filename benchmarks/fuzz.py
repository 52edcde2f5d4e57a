"""Checks of mutated captures against the invariants of `tests.scenarios.invariants`, for a time or a number of inputs.

    python -m benchmarks.fuzz --seconds 60 --seed 1 --jobs 2
    python -m benchmarks.fuzz --inputs 1000000 --seed 1 --jobs 2
    python -m benchmarks.fuzz --readers --seconds 30       # the compiled reader against the Python one, instead

Input number N of a seed is always the same. An input that fails is reduced and written into tests/regressions, and the tests try it from
then on; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import struct
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from pulsarscope.engine.options import Options
from pulsarscope.inputs.key_logs import read_key_logs
from pulsarscope.inputs.private_keys import read_key_files
from tests.places import CAPTURES
from tests.scenarios.both_readers import BothReaders, BothSplitters
from tests.scenarios.capture_mutations import Corpus, Input, corpus_options
from tests.scenarios.invariants import NONE, Invariants

REGRESSIONS = Path(__file__).parents[1] / "tests" / "regressions"

OTHER_EVERY = 8
"""Interval, in inputs, at which one of the slower checks runs."""

STREAMS = 50
"""Streams of mutated frames for each capture when readers are compared."""

JOBS_EVERY = 500
"""Interval, in slower checks, at which a run with two processes is compared."""

FAILURES_MAX = 10
"""Number of failures after which a worker gives up."""

SHRINK_SECONDS = 30

PCAP_ORDERS = {struct.pack(order + "I", magic): order for magic in (0xA1B2C3D4, 0xA1B23C4D) for order in "<>"}
"""First bytes of a pcap file -> its byte order."""

MEMORY_FOLDER = "/dev/shm"  # noqa: S108 - a folder in memory; what is made in it is private


class Share(NamedTuple):
    """Inputs of one worker: numbers `first`, `first + step`, … below `end`."""

    seed: int
    first: int
    step: int
    end: int | None
    seconds: float | None
    keep: Path
    readers: bool = False
    """Compare the two readers instead."""


class Outcome(NamedTuple):
    """Work done by a worker."""

    inputs: Counter[str]
    """Number of inputs by level."""
    failures: list[str]


def main() -> int:
    """Run the workers, print what they did, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, help="elapsed time after which to end")
    parser.add_argument("--inputs", type=int, help="number of inputs after which to end")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=REGRESSIONS, help="folder for inputs that fail")
    parser.add_argument("--readers", action="store_true", help="compare the rows of the compiled reader with those of the Python one")
    given = parser.parse_args()
    if given.seconds is None and given.inputs is None:
        parser.error("give --seconds or --inputs")
    end = None if given.inputs is None else given.first + given.inputs
    shares = [Share(given.seed, given.first + job, given.jobs, end, given.seconds, given.keep, given.readers) for job in range(given.jobs)]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        outcomes = list(pool.map(work, shares))
    inputs = sum((outcome.inputs for outcome in outcomes), Counter[str]())
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    levels = ", ".join(f"{level} {number:,}" for level, number in sorted(inputs.items()))
    print(f"seed {given.seed}: {inputs.total():,} inputs ({levels}), {len(failures)} failures")
    print(*failures, sep="\n\n")
    return 1 if failures else 0


def work(share: Share) -> Outcome:
    """Try the inputs of one worker."""
    corpus, options = Corpus(CAPTURES, corpus_options()), fuzz_options()
    frames = [frame for conversation in corpus.conversations["pulsar"] for _, frame in conversation.frames]
    inputs: Counter[str] = Counter()
    failures: list[str] = []
    begun = time.monotonic()
    number = share.first
    with TemporaryDirectory(dir=_memory_folder()) as folder:
        invariants = (BothReaders if share.readers else Invariants)(Path(folder), options)
        splitters = BothSplitters() if share.readers else None
        while (share.end is None or number < share.end) and len(failures) < FAILURES_MAX:
            if share.seconds is not None and time.monotonic() - begun > share.seconds:
                break
            tried = corpus.input(share.seed, number)
            inputs[tried.level] += 1
            turn, other = divmod(number // share.step, OTHER_EVERY)
            try:
                if splitters is not None:
                    random = Random(f"{share.seed} {number}")  # noqa: S311 - repeatable
                    inputs["frames of streams"] += sum(splitters.check(random, frames) for _ in range(STREAMS))
                invariants.check(tried.data, good_checksums_max=tried.good_checksums_max, other=NONE if other else turn)
                if not other and turn % JOBS_EVERY == 0:
                    invariants.check_jobs(tried.data)
            except Exception as error:  # noqa: BLE001 - any is a failure of what is tried
                failures.append(f"input {number} of seed {share.seed}, level {tried.level}: {traceback.format_exc(limit=-4)}")
                keep(share.keep, tried, smallest(tried, type(error), invariants))
            number += share.step
    return Outcome(inputs, failures)


def fuzz_options() -> Options:
    """Return options with all secrets of the captures, so that encrypted content is reached."""
    key_logs = read_key_logs([str(path) for path in sorted(CAPTURES.rglob("*.keylog"))])
    keys = read_key_files([str(path) for path in sorted(CAPTURES.rglob("*.pem"))])
    return msgspec.structs.replace(corpus_options(), key_logs=key_logs, private_keys=keys)


def smallest(tried: Input, error: type[Exception], invariants: Invariants | BothReaders) -> bytes:
    """Return the input without packets that the failure does not need, as far as the time limit allows."""

    def fails(data: bytes) -> bool:
        try:
            invariants.check(data, good_checksums_max=tried.good_checksums_max)
        except Exception as other:  # noqa: BLE001 - as above
            return type(other) is error
        return False

    records = pcap_records(tried.data)
    if records is None:
        return tried.data
    head, packets = records
    until = time.monotonic() + SHRINK_SECONDS
    size = len(packets) // 2
    while size and time.monotonic() < until:
        for start in range(len(packets) - size, -1, -size):
            fewer = packets[:start] + packets[start + size :]
            if fails(head + b"".join(fewer)):
                packets = fewer
        size //= 2
    data = head + b"".join(packets)
    return data if fails(data) else tried.data


def pcap_records(data: bytes) -> tuple[bytes, list[bytes]] | None:
    """Return the header and the records of a sound pcap file; None for anything else."""
    order = PCAP_ORDERS.get(data[:4])
    if order is None:
        return None
    length = struct.Struct(order + "8xI")
    records, at = [], 24
    while at < len(data):
        end = at + 16 + length.unpack_from(data, at)[0]
        records.append(data[at:end])
        at = end
    return data[:24], records


def keep(folder: Path, tried: Input, data: bytes) -> None:
    """Write a failing input to a file named by its level and content."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{tried.level}-{sha256(data).hexdigest()[:10]}.pcap").write_bytes(data)


def _memory_folder() -> str | None:
    return MEMORY_FOLDER if Path(MEMORY_FOLDER).is_dir() else None


if __name__ == "__main__":
    sys.exit(main())
