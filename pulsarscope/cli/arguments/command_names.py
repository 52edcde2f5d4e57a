"""The commands of the command line."""

from importlib import import_module
from typing import Any

COMMANDS = {
    "decode": "Show captures frame by frame.",
    "messages": "Show the messages that applications sent and received.",
    "stats": "Count connections, topics, commands and latencies.",
    "diagnose": "Find problems, with evidence and advice.",
    "report": "Write a page (HTML) to read and to pass on.",
    "compare": "Compare two captures, before and after.",
    "browse": "Browse captures in the terminal.",
    "follow": "Follow a connection, producer, consumer, topic, message or txn.",
    "index": "Index captures, to make browse, decode -Y and follow fast.",
    "extract": "Copy the packets of matching records to a pcapng file.",
    "sql": "Query the records of captures in SQL.",
    "mcp": "Serve captures to an AI assistant over MCP.",
    "wireshark": "Set up Wireshark: a Pulsar dissector and live capture.",
    "registry": "Show the registry of Kafka 0.7 from a dump of ZooKeeper.",
    "live": "Decode traffic as it happens.",
    "pipeline": "Decode large sets of captures into tables with Spark.",
    "findings": "List the findings, or explain one.",
    "fields": "List the fields that a filter (-Y) can name.",
    "help": "Show a page of the documentation.",
    "config": "Show the configuration and where each value comes from.",
    "selftest": "Check this installation against the bundled captures.",
}
"""First lines of the help texts, by command name, which is also the name of its module and function."""


def function_of(name: str) -> Any:
    """Return the function of a command; its module is imported."""
    return getattr(import_module(f"pulsarscope.cli.commands.{name}"), name)
