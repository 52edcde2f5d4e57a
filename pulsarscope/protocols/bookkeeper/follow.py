"""The frames about one entry, whose ledger and number are in the message id: its writes and reads at each bookie."""

from __future__ import annotations

import re

from pulsarscope.dissect.contract.capabilities import FollowKinds, FollowTest
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import FrameRow

_ID = re.compile(r"(\d{1,19}):(\d{1,19})(?::\d{1,10})*", re.ASCII)


def _message(name: str) -> FollowTest:
    """Return the test for LEDGER:ENTRY, which a batch index may follow. Raises UsageError for a malformed name."""
    found = _ID.fullmatch(name)
    if found is None:
        raise UsageError(f'"{name}" is not an entry: give LEDGER:ENTRY, as in 14:3')
    wanted = int(found[1]), int(found[2])

    def test(row: FrameRow) -> bool:
        fields = row.fields or {}
        entries = fields.get("entries") or (fields,)
        return any((entry.get("ledger"), entry.get("stored_entry", entry.get("entry"))) == wanted for entry in entries)

    return test


FOLLOW_KINDS: FollowKinds = {"message": _message}
