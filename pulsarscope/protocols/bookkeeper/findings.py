"""Finding codes of BookKeeper."""

from __future__ import annotations

from pulsarscope.model.findings import FRAME, SESSION, table

CODES = table(
    FRAME.error(
        "entry-damaged",
        "The digest of a ledger entry does not match it, though other entries of the ledger match theirs.",
        "Compare the ADDs of the entry at the other bookies: what came damaged from one of them is damaged on its disk, or on its link.",
    ),
    SESSION.error(
        "bookie-refused",
        "A bookie refuses an operation.",
        "EREADONLY and EIO: look at its disks; EUA: the master keys differ; ETOOMANYREQUESTS: it cannot keep up; ENOLEDGER: it has none of "
        "the ledger's entries.",
        to_act="the bookie's operators",
    ),
    SESSION.warning(
        "ledger-fenced",
        "A bookie refuses to serve a writer whose ledger was recovered by another one.",
        "Two brokers believed that they owned the topic: look for an ownership change, or a lost ZooKeeper session.",
        to_act="the broker's operators",
    ),
)
