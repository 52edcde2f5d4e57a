from __future__ import annotations

import gc

from pulsarscope.model.garbage_collection import COLLECT_EVERY_OBJECTS
from pulsarscope.spark.sessions.task_process import _pass_over_modules, prepare_process


def test_what_is_there_before_the_first_task_is_passed_over() -> None:
    thresholds = gc.get_threshold()
    gc.unfreeze()
    _pass_over_modules.cache_clear()
    try:
        prepare_process()
        assert gc.get_threshold()[0] == COLLECT_EVERY_OBJECTS
        frozen = gc.get_freeze_count()
        assert frozen > 0
        later: list[list[int]] = [[] for _ in range(10)]
        prepare_process()  # of the second task: garbage of the first one is collected
        assert gc.get_freeze_count() <= frozen < frozen + len(later)
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
