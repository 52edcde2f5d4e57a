"""The commands of the command line."""

COMMANDS = {
    "decode": "Show captures frame by frame.",
    "messages": "Show the messages of the applications.",
    "stats": "Count connections, topics, commands and latencies.",
    "diagnose": "Find problems, with evidence and advice.",
    "report": "Write a page to look at and to send.",
    "compare": "Compare two captures, before and after.",
    "browse": "Browse captures on a screen.",
    "follow": "Follow a connection, producer, consumer, topic, message or txn.",
    "index": "Index captures, for browse, and for decode, follow and extract.",
    "extract": "Copy the packets of matching records to a pcapng file.",
    "sql": "Query the records of captures in SQL.",
    "mcp": "Answer an assistant that speaks MCP.",
    "wireshark": "Set up Wireshark: a dissector of Pulsar, and live capture with comments.",
    "registry": "Show the registry of Kafka 0.7 from a dump of ZooKeeper.",
    "live": "Decode traffic while it happens.",
    "pipeline": "Decode large sets of captures into tables with Spark.",
    "findings": "List the findings, or explain one.",
    "fields": "List the fields that a filter (-Y) can name.",
    "help": "Explain a topic: the pages of the documentation.",
    "config": "Show the configuration: its files, and where each value comes from.",
    "selftest": "Check this installation with captures that come with it.",
}
"""Name of a command, which is also that of its module and function -> the first line of its help."""
