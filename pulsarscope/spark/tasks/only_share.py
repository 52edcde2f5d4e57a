"""Decoding a stream in a single task, which sees all connections.

Facts for rules across connections wait in files of the checkpoint, as with tables, and a batch evaluates the slices that are due. So the
cost of a batch depends on its captures, and not on the number of waiting facts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from pulsarscope.capture import Inputs
from pulsarscope.engine.flows import fact_rules
from pulsarscope.engine.options import Options
from pulsarscope.spark.checkpoints.checkpoint import Checkpoint
from pulsarscope.spark.checkpoints.fact_slices import written
from pulsarscope.spark.checkpoints.waiting_facts import WaitingFacts, of_task
from pulsarscope.spark.tasks.partition import Evaluation, Job
from pulsarscope.spark.tasks.share_decoder import ShareBatch, ShareDecoder, States


class OnlyShareDecoder:
    """A decoder of one batch of the only share, or of a part of it, with findings and journeys across connections."""

    def __init__(self, options: Options, batch: ShareBatch, states: States, checkpoint: Checkpoint) -> None:
        """Resume from the state of the previous batch, and from the files in the checkpoint that it names."""
        self._options = options
        self._batch = batch
        self._checkpoint = checkpoint
        self._waiting = next((state.facts for state in states.values()), None) or WaitingFacts(1)
        self._rules = fact_rules(options)
        self._decoder = ShareDecoder(options, batch, states, self._emit)

    @property
    def endpoints(self) -> dict[str, Any]:
        """(client, server) of the connections that have not ended, by name."""
        return self._decoder.endpoints

    def rows(self) -> Iterator[list[Any]]:
        """Yield the rows that the batch completes."""
        with written(self._checkpoint, of_task(self._batch.end, 0), self._rules) as self._facts:
            yield from self._decoder.rows()
        progress = self._decoder.progress
        newest = None if progress.ends else progress.newest
        waiting = self._waiting.with_batch(progress.files, progress.newest, has_facts=self._facts.count > 0)
        if due := waiting.due(newest):
            job = Job(Inputs([], None, []), self._options)
            yield from Evaluation(job, self._checkpoint.path, waiting, progress, due, 1).rows()
            waiting = waiting.evaluated(due, progress.files, 1, progress.newest)
        self._waiting = WaitingFacts(1) if progress.ends else waiting

    def _emit(self, rule: str, key: str, fact: Any) -> None:
        self._facts.add(rule, key, fact)

    def snapshot(self) -> States:
        """Return the state after the batch, once all rows were taken."""
        return {share: replace(state, facts=self._waiting) for share, state in self._decoder.snapshot().items()}
