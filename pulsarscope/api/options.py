"""Options of the library, in the form for the engine."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pulsarscope.model.errors import UsageError

if TYPE_CHECKING:
    from pulsarscope.engine.options import Options

PAYLOAD_FORMS = ("base64", "hex", "text")

AnyPath: TypeAlias = str | os.PathLike[str]


def library_options(
    show_secrets: bool,
    payload: str | None,
    ports: Collection[int],
    decode_as: Mapping[int, str] | None,
    tls_keylog: AnyPath | Sequence[AnyPath],
    private_key: AnyPath | Sequence[AnyPath],
    ledger_password: AnyPath | Sequence[AnyPath],
    schemas: Mapping[str, AnyPath] | None,
    names: AnyPath | Sequence[AnyPath],
    thresholds: Mapping[str, float] | None,
) -> Options:
    """Return the options of the engine, with the contents of the named files. Raises UsageError when one is invalid."""
    if payload not in (None, *PAYLOAD_FORMS):
        raise UsageError(f"payload={payload!r}: give one of {', '.join(PAYLOAD_FORMS)}")
    from pulsarscope.engine.options import Options
    from pulsarscope.inputs.given_files import given_names, given_schemas
    from pulsarscope.inputs.key_logs import read_key_logs
    from pulsarscope.inputs.private_keys import read_key_files
    from pulsarscope.protocols import chosen_thresholds, make_dissectors, names_readers, schema_readers

    return Options(
        show_secrets=show_secrets,
        payload=payload,
        ports=frozenset(ports),
        decode_as=decode_as or {},
        key_logs=read_key_logs(_paths(tls_keylog)),
        private_keys=read_key_files(_paths(private_key)),
        passwords=read_key_files(_paths(ledger_password), "password"),
        schemas=given_schemas([(topics, os.fspath(path)) for topics, path in (schemas or {}).items()], schema_readers),
        names=given_names(_paths(names), names_readers),
        thresholds=chosen_thresholds(thresholds or {}),
        dissectors=make_dissectors,
    )


def _paths(given: AnyPath | Sequence[AnyPath]) -> list[str]:
    """Return one or several paths as a list of texts."""
    return [os.fspath(path) for path in ([given] if isinstance(given, (str, os.PathLike)) else given)]
