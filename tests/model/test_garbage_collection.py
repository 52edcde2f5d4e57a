from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import atexit, sys, weakref
from pulsarscope.model.garbage_collection import end_without_collecting

class Item:
    def __del__(self):
        print("deleted")

if sys.argv[1:]:
    end_without_collecting()
item = Item()
weakref.finalize(item, print, "finalized")
atexit.register(print, "registered")
print("written without a flush")
"""


def test_a_process_ends_as_ever_but_for_objects_that_are_not_deleted() -> None:
    as_ever, passing_over = (
        subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True).stdout.splitlines()
        for arguments in ([], ["pass over"])
    )
    assert as_ever == [*passing_over, "deleted"]
    assert sorted(passing_over) == ["finalized", "registered", "written without a flush"]
