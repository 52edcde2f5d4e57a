"""The rooms of the package: what each knows, what it never knows, and which rooms it may import."""

from __future__ import annotations

from typing import NamedTuple


class Room(NamedTuple):
    """A folder or module at the top of the package."""

    imports: frozenset[str]
    knows: str = ""
    never: str = ""
    """Empty for a room without a row in the documentation."""


def _room(imports: str, knows: str = "", never: str = "") -> Room:
    return Room(frozenset(imports.split()), knows, never)


ROOMS = {
    "model": _room(
        "",
        "the leaves: records and their columns, findings, flow keys, every limit with its reason, the public exceptions, the escaper",
        "the words of a protocol",
    ),
    "capture": _room(
        "model",
        "`formats` (pcap, pcapng, compression) and `link` (link layers, IP, tunnels, fragments): bytes → blocks of packets",
        "streams",
    ),
    "inputs": _room("model", "files that the user brings: key logs, private keys, schemas, ZooKeeper dumps", "captures"),
    "tcp": _room("model capture", "sequence numbers, order, overlap, gaps: packets → two ordered streams per connection", "protocols"),
    "tls": _room("model inputs tcp", "TLS records and secrets: stream bytes → stream bytes", "protocols"),
    "dissect": _room(
        "model inputs tcp",
        "the contract of a dissector, cutting streams into frames, recognition and resync by content, the types of rules",
        "any one protocol",
    ),
    "protocols": _room(
        "model inputs dissect",
        "one folder per protocol: frame layout, commands, payloads, session state, rules, wording",
        "files, TCP, output, other protocols",
    ),
    "engine": _room(
        "model capture inputs tcp tls dissect",
        "the engine: connection timelines, pairing, the order of rows, the rule engine and its facts; drivers: local, parallel, flows",
        "any one protocol",
    ),
    "analysis": _room("model dissect", "folds over rows: statistics, latency, diagnosis, comparison, packet selection", "any one protocol"),
    "filter": _room("model dissect", "display filters: text → syntax → typed expression → predicate", "decoding"),
    "output": _room(
        "model dissect analysis", "`render` (text), `html` (pages) and `export` (NDJSON, CSV, Parquet, pcapng): rows → bytes", "decoding"
    ),
    "redaction": _room(
        "model capture dissect engine analysis output",
        "captures that can be shared: frames redacted, in packets made anew",
        "any one protocol",
    ),
    "index": _room(
        "model capture dissect engine filter", "the frames of captures in a file: written by a run, and found by their columns", "decoding"
    ),
    "browse": _room(
        "model capture dissect engine analysis filter output index",
        "a screen: frames kept on disk, lines made when they are shown, pages",
        "decoding",
    ),
    "live": _room("model capture output", "packets of an interface or a pipe, and keeping them in files", "decoding"),
    "spark": _room(
        "pulsarscope model capture inputs filter output engine api index",
        "the pipeline on a cluster: the same rows, distributed by flow",
        "decoding",
    ),
    "cli": _room(
        "pulsarscope model capture inputs dissect protocols engine analysis filter output redaction index browse live spark",
        "the command line: options, one module a command, exit codes",
        "decoding",
    ),
    "testing": _room(
        "model dissect engine",
        "help for authors of dissectors: scripted connections, properties of the contract, a fuzz driver",
        "any one protocol",
    ),
    "api": _room("model capture inputs dissect protocols engine analysis filter output redaction live"),
    "pulsarscope": _room("api dissect model protocols"),
    "pytest": _room("pulsarscope model"),
    "__main__": _room("model cli"),
}
"""Rooms by name, in the order in which bytes travel; a room imports only rooms to its left."""


FOLDERS = {
    "dissect": ["blanking", "contract", "plugins", "framing"],
    "protocols/pulsar/rules": ["exchanges", "connections", "sends", "subscriptions", "consumers"],
    "spark": ["sessions", "files", "rows", "checkpoints", "tasks", "data_source", "jobs"],
}
"""Folders of large rooms; a folder imports none to its right."""


def table() -> str:
    """Return the rooms, and the folders in order, as tables in Markdown."""
    folders = [f"| `{room}/` | {', '.join(f'`{folder}`' for folder in names)} |" for room, names in FOLDERS.items()]
    rows = [f"| `{name}/` | {room.knows} | {room.never} |" for name, room in ROOMS.items() if room.knows]
    rooms = "\n".join(["| room | what it knows | what it never knows |", "|---|---|---|", *rows])
    order = "\n".join(["| folder | its folders, each of which imports none to its right |", "|---|---|", *folders])
    return f"{rooms}\n\n{order}"
