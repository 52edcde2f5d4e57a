"""The dissectors, one folder each. This tuple is the only place that lists them."""

from __future__ import annotations

from collections.abc import Mapping

from pulsarscope.dissect.contract.capabilities import ReadNames, ReadSchema
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.plugins import registry
from pulsarscope.model.thresholds import checked_thresholds
from pulsarscope.protocols.bookkeeper.dissector import BookkeeperDissector
from pulsarscope.protocols.kafka07.dissector import Kafka07Dissector
from pulsarscope.protocols.pulsar.dissector import PulsarDissector

DISSECTORS = (PulsarDissector, Kafka07Dissector, BookkeeperDissector)
"""Classes of the package's own dissectors, in the order in which they are tried."""


def make_dissectors(*, show_secrets: bool = False) -> tuple[Dissector, ...]:
    """Make one of each, in the order of trial, with other packages' last. Raises UsageError if two have the same name or port."""
    made = tuple(make(show_secrets=show_secrets) for make in registry.with_plugins(DISSECTORS))
    registry.share_stored_readers(made)
    return made


def wireshark_dissector() -> str:
    """Return Pulsar's dissector for Wireshark, in Lua."""
    from pulsarscope.protocols.pulsar.frame.wireshark import wireshark_text  # noqa: PLC0415 - one command needs it

    return wireshark_text()


def names_readers() -> list[ReadNames]:
    """Return the readers of files with names, in the order of the dissectors."""
    return registry.names_readers(make_dissectors())


def schema_readers() -> list[ReadSchema]:
    """Return the readers of schema files, in the order of the dissectors."""
    return registry.schema_readers(make_dissectors())


def chosen_thresholds(given: Mapping[str, float | str]) -> dict[str, float]:
    """Return the user's values for thresholds, by name. Raises UsageError for an unknown name or an impossible value."""
    return checked_thresholds(given, registry.threshold_table(make_dissectors())) if given else {}
