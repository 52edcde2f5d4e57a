"""Every dissector of a run, and what they know together: finding codes, registries."""

from __future__ import annotations

from collections.abc import Sequence

from pulsarscope.dissect.contract import Dissector
from pulsarscope.dissect.plugins import with_plugins
from pulsarscope.inputs.nodes import Node, Registry
from pulsarscope.model.errors import UsageError
from pulsarscope.model.findings import CAPTURE_CODES, TCP_CODES, TLS_CODES, Code, join_codes
from pulsarscope.protocols import DISSECTORS


def make_dissectors(*, show_secrets: bool = False) -> tuple[Dissector, ...]:
    """One of each, in the order in which they are tried: those of the package, then those that other packages bring.

    Raises:
        UsageError: as `plugins.with_plugins`.
    """
    return tuple(make(show_secrets=show_secrets) for make in with_plugins(DISSECTORS))


def finding_codes(dissectors: Sequence[Dissector], *, rules: bool = True) -> dict[str, Code]:
    """Every finding code by name: those of the layers below the protocols, those of the dissectors, and of their rules.

    Raises:
        UsageError: a code is defined twice.
    """
    own = [dissector.codes for dissector in dissectors] + [dissector.rules.codes for dissector in dissectors if rules]
    try:
        return join_codes((CAPTURE_CODES, TCP_CODES, TLS_CODES, *own))
    except ValueError as error:
        message = f"{error}; the dissectors are {', '.join(dissector.name for dissector in dissectors)}"
        raise UsageError(message) from None


def read_registry(nodes: Sequence[Node]) -> Registry:
    """What the dissectors find in a dump of ZooKeeper, one after the other; what none of them knows is left in `unknown`."""
    whole = Registry({}, list(nodes), [])
    for dissector in make_dissectors():
        if dissector.registry is not None:
            found = dissector.registry(whole.unknown)
            whole = Registry(whole.sections | found.sections, found.unknown, whole.notes + found.notes)
    return whole
