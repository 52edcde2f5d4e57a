"""The program that Wireshark and tshark start to capture (extcap(4) of Wireshark describes the options)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from pulsarscope import __version__
from pulsarscope.cli.standard_error import warn
from pulsarscope.model.errors import OutputError, PulsarscopeError, UsageError, system_reason
from pulsarscope.model.platform import end_without_memory
from pulsarscope.model.text import escape

NAME = "pulsarscope"

LINK_TYPE_ETHERNET = 1
"""The link type announced to Wireshark; each interface of the capture has its own."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer Wireshark's queries, or capture until it stops reading, and return the exit code."""
    end_without_memory(tells=True)
    options = _parser().parse_known_args(arguments)[0]
    try:
        if options.extcap_interface not in (None, NAME):
            raise UsageError(f"unknown interface {escape(options.extcap_interface)}: the only one is {NAME}")
        if options.extcap_interfaces:
            return _say(f"extcap {{version={__version__}}}", f"interface {{value={NAME}}}{{display=Apache Pulsar (pulsarscope live)}}")
        if options.extcap_dlts:
            return _say(f"dlt {{number={LINK_TYPE_ETHERNET}}}{{name=EN10MB}}{{display=Ethernet}}")
        if options.extcap_config:
            return _say(*_configuration())
        if options.capture and options.fifo:
            _capture(options)
            return 0
    except PulsarscopeError as error:
        warn(*error.lines)
        return error.exit_code
    except BrokenPipeError:
        return 0  # Wireshark has enough
    except OSError as error:
        warn(f"cannot capture: {system_reason(error)}")
        return OutputError.exit_code
    warn("Wireshark starts this program; pulsarscope live captures without it")
    return UsageError.exit_code


def _capture(options: argparse.Namespace) -> None:
    from pulsarscope.cli.arguments.live_request import LiveRequest
    from pulsarscope.cli.arguments.options import ReadOptions
    from pulsarscope.cli.extcap_capture import capture  # Wireshark asks for the interfaces at each start

    request = LiveRequest(
        interfaces=[options.interface],
        capture_filter=options.extcap_capture_filter or None,
        any_port=options.any_port,
        reading=ReadOptions(tls_keylog=[options.tls_keylog] if options.tls_keylog else None),
    )
    capture(request, options.fifo)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(NAME, allow_abbrev=False, description="live capture for Wireshark")
    for flag in ("--extcap-interfaces", "--extcap-dlts", "--extcap-config", "--capture", "--any-port"):
        parser.add_argument(flag, action="store_true")
    for option in ("--extcap-interface", "--extcap-version", "--extcap-capture-filter", "--fifo", "--tls-keylog"):
        parser.add_argument(option)
    parser.add_argument("--interface", default="any")
    return parser


def _say(*lines: str) -> int:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


def _configuration() -> Iterator[str]:
    """Yield the options that Wireshark shows."""
    from pulsarscope.live.interfaces import ANY, all_interfaces

    yield "arg {number=0}{call=--interface}{display=Interface}{type=selector}{tooltip=Where to capture}"
    yield f"value {{arg=0}}{{value={ANY}}}{{display=all interfaces}}{{default=true}}"
    for interface in all_interfaces():
        name = _plain(interface.name)
        yield f"value {{arg=0}}{{value={name}}}{{display={name}}}{{default=false}}"
    yield "arg {number=1}{call=--any-port}{display=All TCP ports}{type=boolflag}{tooltip=Not only the ports of the known protocols}"
    yield "arg {number=2}{call=--tls-keylog}{display=TLS key log}{type=fileselect}{tooltip=Secrets of TLS, followed while the file grows}"


def _plain(text: str) -> str:
    return escape(text).replace("{", "(").replace("}", ")")


if __name__ == "__main__":
    sys.exit(main())
