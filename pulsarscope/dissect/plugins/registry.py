"""The registry of installed packages: dissectors and payload decoders of other distributions, found by entry point."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from pulsarscope.dissect.contract.capabilities import PayloadDecoder, ReadNames, ReadSchema, Registry, TopicNames, Vocabulary
from pulsarscope.dissect.contract.dissector import CONTRACT, Dissector, Framing
from pulsarscope.dissect.contract.dissector_rules import Rules
from pulsarscope.dissect.contract.generic_codes import GENERIC_CODES
from pulsarscope.dissect.plugins.isolation import PluginWarning, contained, exception_text, failure, of_type
from pulsarscope.model.errors import UsageError
from pulsarscope.model.findings import CAPTURE_CODES, TCP_CODES, TLS_CODES, Code, join_codes
from pulsarscope.model.platform import entry_points, module_path
from pulsarscope.model.thresholds import VERDICT_THRESHOLDS, Threshold, join_thresholds

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pulsarscope.dissect.contract.dissector import OpenStored
    from pulsarscope.dissect.contract.known_issues import KnownIssues
    from pulsarscope.dissect.contract.session import SessionSettings
    from pulsarscope.inputs.zookeeper import Node

DISSECTOR_GROUP = "pulsarscope.dissectors"
"""Entry point group: each names a subclass of `Dissector`, called as class(show_secrets=bool)."""

PAYLOAD_DECODER_GROUP = "pulsarscope.payload_decoders"
"""Entry point group: each names a `PayloadDecoder`, or a class that makes one."""

MakeDissector = Callable[..., Dissector]

Loaded = TypeVar("Loaded")

FileContent = TypeVar("FileContent")

_TYPES = {
    "name": str,
    "ports": frozenset,
    "framing": Framing,
    "codes": dict,
    "announcing": frozenset,
    "opening": frozenset,
    "layouts": dict,
    "layout_head": tuple,
    "sides": tuple,
    "refusals": tuple,
    "topics": TopicNames,
    "families": Mapping,
    "keeps_frames": bool,
    "stores": bool,
    "compiled": object,
}
"""Members that hold values, with their types."""


def with_plugins(built_in: Sequence[MakeDissector]) -> tuple[MakeDissector, ...]:
    """Add the dissectors of other packages to those of this one, ordered by the names of their entry points.

    A dissector that does not work is ignored, with one PluginWarning per process.

    Raises:
        UsageError: two of them have the same name or port.
    """
    return _with_plugins(tuple(built_in), module_path())


def payload_decoders() -> tuple[tuple[str, PayloadDecoder], ...]:
    """Return the payload decoders that work, with the names of their entry points; each of the others causes one PluginWarning."""
    return _payload_decoders(module_path())


def rules_of(dissector: Dissector) -> Rules:
    """Return the rules of a dissector; none, with a PluginWarning, if it fails to provide them."""
    return _member(dissector, "rules", Rules({}))


def vocabularies(dissectors: Iterable[Dissector]) -> list[Vocabulary]:
    """Return the vocabularies of the dissectors, except, with a PluginWarning, those that fail or are wrong."""
    return [contained(dissector, "vocabulary", _vocabulary, Vocabulary(), dissector) for dissector in dissectors]


def _vocabulary(dissector: Dissector) -> Vocabulary:
    vocabulary: Vocabulary = of_type((Vocabulary,), getattr, dissector, "vocabulary")
    if dissector.package != Dissector.package:  # tests check those of the package itself
        from pulsarscope.dissect.plugins.vocabulary_check import check_vocabulary  # noqa: PLC0415 - few runs need it

        check_vocabulary(vocabulary)
    return vocabulary


def known_issues_of(dissector: Dissector) -> KnownIssues:
    """Return the issues that a dissector knows; none, with a PluginWarning, if it fails to provide them."""
    from pulsarscope.dissect.contract.known_issues import KnownIssues  # noqa: PLC0415 - only diagnoses need it

    return _member(dissector, "known_issues", KnownIssues())


def _member(dissector: Dissector, name: str, default: Loaded) -> Loaded:
    """Return a member that has the type of a default; the default, with a PluginWarning, if the dissector fails to provide it."""
    return contained(dissector, name, of_type, default, (type(default),), getattr, dissector, name)


def finding_codes(dissectors: Sequence[Dissector], *, rules: bool = True) -> dict[str, Code]:
    """Return every finding code by name: of the layers below the protocols, of the dissectors, and of their rules.

    Raises:
        UsageError: a code is defined twice.
    """
    own = [dissector.codes for dissector in dissectors] + [rules_of(dissector).codes for dissector in dissectors if rules]
    try:
        return join_codes((CAPTURE_CODES, TCP_CODES, TLS_CODES, *own, GENERIC_CODES))
    except ValueError as error:
        message = f"{error}; the dissectors are {', '.join(dissector.name for dissector in dissectors)}"
        raise UsageError(message) from None


def threshold_table(dissectors: Sequence[Dissector]) -> dict[str, Threshold]:
    """Return every threshold by name: of the verdict, and of the rules of the dissectors.

    Raises:
        UsageError: a threshold is defined twice.
    """
    try:
        return join_thresholds((VERDICT_THRESHOLDS, *(rules_of(dissector).thresholds for dissector in dissectors)))
    except ValueError as error:
        message = f"{error}; the dissectors are {', '.join(dissector.name for dissector in dissectors)}"
        raise UsageError(message) from None


def read_registries(nodes: Sequence[Node], dissectors: Iterable[Dissector]) -> Registry:
    """Read a dump of ZooKeeper with each dissector in turn; nodes that none of them knows remain in `unknown`."""
    joined = Registry({}, list(nodes), [])
    for dissector in dissectors:
        part = contained(dissector, "registry", _read_registry, Registry({}, joined.unknown, []), dissector, joined.unknown)
        joined = Registry(joined.sections | part.sections, part.unknown, joined.notes + part.notes)
    return joined


def _read_registry(dissector: Dissector, nodes: Sequence[Node]) -> Registry:
    read = dissector.registry
    return Registry({}, list(nodes), []) if read is None else read(nodes)


def names_readers(dissectors: Iterable[Dissector]) -> list[ReadNames]:
    """Return the readers of files with names, in the order of the dissectors."""
    return [partial(_read_file, dissector, "names_reader", read) for dissector, read in _readers(dissectors, "names_reader")]


def schema_readers(dissectors: Iterable[Dissector]) -> list[ReadSchema]:
    """Return the readers of schema files, in the order of the dissectors."""
    return [partial(_read_file, dissector, "schema_reader", read) for dissector, read in _readers(dissectors, "schema_reader")]


def share_stored_readers(dissectors: Sequence[Dissector]) -> None:
    """Give all dissectors the readers of stored entries. A reader that fails is ignored, or reads nothing, with a PluginWarning."""
    stored, receipts = (_shared(dissectors, member) for member in ("stored_reader", "receipt_reader"))
    redactions = _shared(dissectors, "stored_redaction")
    openers = tuple(partial(_stored_opener, dissector) for dissector in dissectors)
    for dissector in dissectors:
        dissector.stored_readers, dissector.receipt_readers, dissector.stored_openers = stored, receipts, openers
        dissector.stored_redactions = redactions


def _shared(dissectors: Sequence[Dissector], member: str) -> tuple[Callable[..., Any], ...]:
    """Return the readers that dissectors have as this member; where one fails, its result is None."""
    return tuple(partial(contained, dissector, member, read, None) for dissector, read in _readers(dissectors, member))


def _readers(dissectors: Iterable[Dissector], member: str) -> list[tuple[Dissector, Any]]:
    """Return the dissectors that have a reader as this member, with the reader."""
    readers = [(dissector, contained(dissector, member, getattr, None, dissector, member)) for dissector in dissectors]
    return [(dissector, read) for dissector, read in readers if read is not None]


def _stored_opener(dissector: Dissector, settings: SessionSettings) -> OpenStored | None:
    opener = contained(dissector, "stored_opener", dissector.stored_opener, None, settings)
    return None if opener is None else partial(contained, dissector, "stored_opener", opener, None)


def _read_file(dissector: Dissector, member: str, read: Callable[..., FileContent], *file: Any) -> FileContent:
    try:
        return read(*file)
    except ValueError:
        raise
    except Exception as error:  # noqa: BLE001 - other people's code
        raise ValueError(failure(dissector, member, error).text) from None


@cache
def _with_plugins(built_in: tuple[MakeDissector, ...], path: tuple[str, ...]) -> tuple[MakeDissector, ...]:
    known: dict[str, Dissector] = {}
    makers = list(built_in)
    for point, make, dissector in _load(DISSECTOR_GROUP, "dissector", _dissector, path):
        known = known or {f"{made.name} of pulsarscope": made for made in (make(show_secrets=False) for make in built_in)}
        origin = f"{point.name} of {dissector.package}"
        for other, before in known.items():
            if message := _clash(origin, dissector, other, before):
                raise UsageError(message)
        known[origin] = dissector
        makers.append(make)
    return tuple(makers)


@cache
def _payload_decoders(path: tuple[str, ...]) -> tuple[tuple[str, PayloadDecoder], ...]:
    return tuple((point.name, decoder) for point, _, decoder in _load(PAYLOAD_DECODER_GROUP, "payload decoder", _payload_decoder, path))


def _load(
    group: str, kind: str, check: Callable[[EntryPoint, Any], tuple[Any, Loaded]], path: tuple[str, ...]
) -> Iterator[tuple[EntryPoint, Any, Loaded]]:
    """Yield the entry points of a group that load and pass the check, each with the results of the check."""
    for point in entry_points(group, path):
        try:
            make, loaded = check(point, point.load())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - other people's code runs when it is imported
            warnings.warn(f"the {kind} {point.name} of {_package(point)} is left out: {exception_text(error)}", PluginWarning, stacklevel=2)
            continue
        yield point, make, loaded


def _package(point: EntryPoint) -> str:
    return (point.dist and point.dist.name) or f"the module {point.module}"  # the name is None without METADATA


def _dissector(point: EntryPoint, make: MakeDissector) -> tuple[MakeDissector, Dissector]:
    """Return the maker of a dissector and a dissector that has the form of the contract. Raises TypeError for any other."""

    def make_named(*, show_secrets: bool) -> Dissector:
        made = make(show_secrets=show_secrets)
        made.package = _package(point)
        return made

    made: Any = make(show_secrets=False)
    if not isinstance(made, Dissector):
        message = "it is not a subclass of pulsarscope.dissect.Dissector"
        raise TypeError(message)
    if made.contract != CONTRACT:
        message = f"it is written for version {made.contract} of the contract, this is version {CONTRACT}"
        raise TypeError(message)
    for name, kind in _TYPES.items():
        if not isinstance(getattr(made, name, None), kind):
            message = f"its {name} is not a {kind.__name__}"
            raise TypeError(message)
    missing = [name for name in ("recognise", "decode", "session") if getattr(type(made), name) is getattr(Dissector, name)]
    if missing or not made.name:
        message = f"it lacks {', '.join(missing) or 'a name'}"
        raise TypeError(message)
    return make_named, make_named(show_secrets=False)


def _payload_decoder(_point: EntryPoint, made: Any) -> tuple[None, PayloadDecoder]:
    decoder = made() if isinstance(made, type) else made
    if not (isinstance(decoder.topics, str) and callable(decoder.decode)):
        message = "topics must be text, and decode callable"
        raise TypeError(message)
    return None, decoder


def _clash(origin: str, made: Dissector, other: str, before: Dissector) -> str:
    """Return a sentence about the name or port that two dissectors share; "" for none."""
    if made.name == before.name:
        return f"the dissectors {origin} and {other} are both named {made.name}: uninstall one of the packages"
    if shared := sorted(made.ports & before.ports):
        return f"the dissectors {origin} and {other} both expect port {shared[0]}: uninstall one of the packages"
    return ""
