"""Isolation of dissectors that raise: an exception becomes a finding or a warning, and everything else continues."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pulsarscope.model.errors import UsageError

if TYPE_CHECKING:
    from pulsarscope.dissect.contract.dissector import Dissector

EXCEPTION_MAX_CHARACTERS = 300
"""Characters of an exception's text that are quoted; the text may hold bytes of the traffic."""

OWN_MODULES = f"{__name__.partition('.')[0]}."
ROOM_MODULES = f"{OWN_MODULES}dissect."
PROTOCOL_MODULES = f"{OWN_MODULES}protocols."
"""Name prefixes of modules: of this package, of this room, and of the dissectors."""

Value = TypeVar("Value")


class PluginWarning(UserWarning):
    """A plug-in, or a part of it, is ignored because it does not work."""


class Failure(NamedTuple):
    """An exception that a member of a dissector raised."""

    package: str
    dissector: str
    member: str
    exception: str

    @property
    def text(self) -> str:
        """The failure as the end of a sentence."""
        return f"the dissector {self.dissector} of {self.package} failed in {self.member}: {self.exception}"


def failure(dissector: Dissector, member: str, error: Exception) -> Failure:
    """Describe an exception."""
    return Failure(dissector.package, dissector.name, member, exception_text(error) + raising_line(error))


def raising_function(error: Exception, default: str) -> str:
    """Return the name of the first function outside this room that an exception passed through: the member that raised."""
    trace = error.__traceback__
    while trace is not None:
        if not str(trace.tb_frame.f_globals.get("__name__", "")).startswith(ROOM_MODULES):
            return trace.tb_frame.f_code.co_name
        trace = trace.tb_next
    return default


def raising_line(error: BaseException) -> str:
    """Return the last line of a dissector's own code that an exception passed through, as " (name.py:12)"; "" if raised elsewhere."""
    line, package = "", ""
    trace = error.__traceback__
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if not module.startswith(OWN_MODULES) or module.startswith(PROTOCOL_MODULES):
            package = package or module.partition(".")[0]
            if module.partition(".")[0] == package:
                file = trace.tb_frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2]
                line = f" ({file}:{trace.tb_lineno})"
        trace = trace.tb_next
    return line


def exception_text(error: BaseException) -> str:
    """Return the class and the text of an exception, even if making the text fails. Re-raises MemoryError: it is not contained."""
    if isinstance(error, MemoryError):
        raise error
    try:
        text = str(error)[:EXCEPTION_MAX_CHARACTERS]
    except Exception:  # noqa: BLE001 - other people's code
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def of_type(kinds: tuple[type, ...], call: Callable[..., Value], *arguments: Any) -> Value:
    """Return the value of a member. Raises TypeError for a value of another type."""
    value = call(*arguments)
    if not isinstance(value, kinds):
        message = f"not a {' or '.join(kind.__name__ for kind in kinds)} but {type(value).__name__}"
        raise TypeError(message)
    return value


def contained(dissector: Dissector, member: str, call: Callable[..., Value], default: Value, *arguments: Any) -> Value:
    """Return the value of a member that concerns no connection; if it raises, the default, with a PluginWarning. UsageErrors pass."""
    try:
        return call(*arguments)
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - other people's code
        warnings.warn(failure(dissector, member, error).text, PluginWarning, stacklevel=2)
        return default
