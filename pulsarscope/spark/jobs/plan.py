"""The plan of a run and its estimated cost, made before Spark starts from the list of captures and a measured sample."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import msgspec

from pulsarscope.capture import BlockReader, Inputs, expand_inputs
from pulsarscope.capture.formats.compression import COMPRESSED_SUFFIXES
from pulsarscope.engine.engine import Engine
from pulsarscope.engine.options import Options
from pulsarscope.model.text import plural
from pulsarscope.spark.files.remote_files import list_files, open_path, size_and_change

SAMPLE_BYTES = 4 << 20
"""Stored bytes of a sample, from the beginning of a file."""

SAMPLES = 3

TASK_BYTES = 64 << 20
"""Approximate bytes of captures per task: small enough that a stage does not wait long for its last task."""

TASKS_PER_CORE = 3
"""Minimum number of tasks per core, because files and connections differ in size."""

_LOCAL = re.compile(r"local(?:\[(\d+)\])?")

SHUFFLED = 1.05
"""Bytes of packed segments in a shuffle for each byte of an uncompressed capture."""


class PipelinePlan(msgspec.Struct):
    """The plan of a run."""

    files: int
    bytes: int
    """Stored bytes."""
    sources: int
    compressed: int
    """Number of compressed files, each of which is read by one task."""
    largest: int
    """Stored bytes of the largest file."""
    portions: int
    """Number of reading tasks."""
    sampled: int
    """Stored bytes of the samples."""
    expanded: float
    """Bytes of packets for each stored byte of the samples."""
    seconds: float
    """Core seconds for each stored byte of the samples."""
    rows: dict[str, float]
    """Rows for each stored byte of the samples, by kind."""

    @property
    def core_seconds(self) -> float:
        """Estimated core seconds for decoding."""
        return self.seconds * self.bytes

    @property
    def shuffled(self) -> float:
        """Estimated bytes of the shuffle."""
        return self.expanded * self.bytes * SHUFFLED


def make_plan(arguments: Sequence[str], options: Options, split: int | None) -> PipelinePlan:
    """Return the plan of a run. Raises CaptureError when no argument leads to a capture."""
    inputs = expand_inputs(arguments, options.source_by, list_files, open_path)
    sizes = [_size(path) for path in inputs.paths]
    packed = [_is_compressed(path) for path in inputs.paths]
    whole = split is None
    plan = PipelinePlan(
        len(inputs.paths),
        sum(sizes),
        max(len(set(inputs.sources)), 1),
        sum(packed),
        max(sizes, default=0),
        sum(1 if whole or compressed else max(1, -(-size // (split or 1))) for size, compressed in zip(sizes, packed, strict=True)),
        0,
        0.0,
        0.0,
        {},
    )
    _measure(inputs, sizes, options, plan)
    return plan


def _measure(inputs: Inputs, sizes: Sequence[int], options: Options, plan: PipelinePlan) -> None:
    """Decode the beginnings of the largest captures."""
    began = time.process_time()
    payload = 0
    for _, path in sorted(zip(sizes, inputs.paths, strict=True), reverse=True)[:SAMPLES]:
        sample = Inputs([path], None, [])
        engine = Engine(sample, options)
        size = 0
        for block in BlockReader(path, opener=open_path):
            payload += sum(len(segment[6]) + len(segment[9]) for segments in block.flows.values() for segment in segments)
            for part in engine.feed(block):
                for row in part.rows:
                    plan.rows[row.kind] = plan.rows.get(row.kind, 0.0) + 1
            size = block.bytes_read
            if size >= SAMPLE_BYTES:
                break
        for part in engine.end():
            for row in part.rows:
                plan.rows[row.kind] = plan.rows.get(row.kind, 0.0) + 1
        plan.sampled += size
    if plan.sampled:
        plan.seconds = (time.process_time() - began) / plan.sampled
        plan.expanded = payload / plan.sampled
        plan.rows = {kind: rows / plan.sampled for kind, rows in plan.rows.items()}


def plan_lines(plan: PipelinePlan, tasks: int, cores: int | None) -> Iterator[str]:
    """Yield the plan in words; `tasks`: number of decoding tasks, `cores`: number of cores, if known."""
    size, largest = plan.bytes / 1e6, plan.largest / 1e6
    captures = f"{plural(plan.files, 'capture')} of {plural(plan.sources, 'vantage point')}"
    yield f"{captures}, {size:,.1f} MB; the largest has {largest:,.1f} MB; {plan.compressed:,} compressed"
    yield f"  1. scan     {plural(plan.portions, 'task'):>12}: count packets, find TLS secrets and what is of no known protocol"
    yield f"  2. read     {plural(plan.portions, 'task'):>12}: packets of a pair of endpoints in 4 MiB become a row"
    yield f"  3. shuffle  {plan.shuffled / 1e6:>6,.0f} MB by pair of endpoints, on spark.local.dir"
    yield f"  4. decode   {plural(tasks, 'task'):>12}: rows are written as they come"
    yield "  5. rules    across connections: facts, without payload, are shuffled by their keys"
    if not plan.sampled:
        yield "no packet could be read for an estimate"
        return
    rows = ", ".join(plural(round(rows * plan.bytes), kind) for kind, rows in sorted(plan.rows.items()))
    yield f"estimate, from {plan.sampled / 1e6:,.1f} MB decoded here: {plan.core_seconds:,.0f} s of a core, {rows}"
    if cores:
        yield f"with {plural(cores, 'core')}: {plan.core_seconds / cores:,.0f} s, and what the start of Spark takes"


def local_cores(master: str | None) -> int | None:
    """Return the number of cores of a master on this machine; None for a cluster, whose cores are not known before Spark starts."""
    if master is None or master == "local[*]":
        return os.cpu_count()
    match = _LOCAL.fullmatch(master)
    return int(match[1] or 1) if match else None


def planned_tasks(plan: PipelinePlan, cores: int | None) -> int:
    """Return the number of decoding tasks, as `tables.task_count` does."""
    return max(plan.bytes // TASK_BYTES, TASKS_PER_CORE * (cores or 1))


def _size(path: str) -> int:
    try:
        return size_and_change(path)[0]
    except OSError:
        return 0


def _is_compressed(path: str) -> bool:
    return PurePosixPath(path.partition("?")[0] if "://" in path else path).suffix in COMPRESSED_SUFFIXES
