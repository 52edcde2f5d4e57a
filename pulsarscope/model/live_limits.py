"""Bounds of live captures: each with its unit and the reason for its value."""

from __future__ import annotations

LIVE_RING_BLOCK_BYTES = 1 << 20
"""Size of a block of the kernel's packet ring: the largest packet must fit, and one block is decoded at a time."""

LIVE_RING_BYTES = 64 << 20
"""Size of the kernel's packet ring of an interface: half a second of a full 1 Gbit/s line."""

LIVE_RING_MEMORY_SHARE = 4
"""Divisor of the host's memory that limits the ring: the kernel would allocate all of it, and kill other processes."""

LIVE_QUEUE_MAX_BYTES = 64 << 20
"""Captured packets that wait to be decoded; beyond that packets are skipped and reported, so that a capture never grows in memory."""

LIVE_STEPS_MAX = 8
"""Blocks of a live capture that several processes have begun to decode: what waits beyond that is in the queue, and bounded with it."""

LIVE_HOLE_NANOSECONDS_MAX = 1_000_000_000
"""Age of the first bytes behind a hole after which it is a gap in a live capture, acknowledged or not: nobody waits longer for the next
frame, and nothing piles up where packets were lost or skipped."""

LIVE_UNHEARD_NANOSECONDS = 120 * 1_000_000_000
"""Silence after which a connection is let go in a live capture that has skipped packets since it was heard, its end maybe among them:
clients and brokers of Pulsar ask each other for a sign of life every 30 s. Short connections would pile up for an hour."""

LIVE_UNHEARD_MAX = 1_024
"""Connections that are kept so, silent for LIVE_UNHEARD_LEAST_NANOSECONDS; beyond that those silent for longest are let go at once.
One with a dozen messages takes up to 35 KiB with all rules: 35 MiB."""

LIVE_UNHEARD_LEAST_NANOSECONDS = 10 * 1_000_000_000
"""Least silence of a connection that is let go so, and the interval in which they are counted."""

LIVE_CONNECTIONS_MAX = 1_024
"""Open connections that the screen of a live run knows; those heard least recently make room: each keeps some frames."""

LIVE_FRAMES_KEPT = 50
"""Latest frames of a connection for the screen: 16 KiB, a page of a large terminal."""

LIVE_COURSE_NAMES_MAX = 256
"""Names in each three seconds of the last minute whose course the screen shows: more than fit on it."""

LIVE_FINDINGS_KEPT = 5
"""Latest findings of each code for the screen."""

LIVE_FINDING_CHARACTERS_MAX = 1_000
"""Characters kept of the text of a finding for the screen: it quotes names from the wire."""

METRICS_CONNECTIONS_MAX = 16
"""Connections to the server of metrics at a time: Prometheus opens one, and each takes a descriptor from the recording."""

METRICS_TIMEOUT_SECONDS = 5
"""Longest wait for a part of a request for metrics: idle connections must make room for others."""

METRICS_NAMES_MAX = 1_000
"""Topics, or commands, with time series of their own: the number of series determines the cost of Prometheus."""

METRICS_NAME_MAX_CHARACTERS = 1_024
"""Longest name in a time series, truncated beyond: a name from the wire may have megabytes, topics have some hundred characters."""

LIVE_TRIGGER_MAX_BYTES = 256 << 20
"""Packets kept in memory before a trigger; on a faster line fewer seconds are saved."""

BROWSED_LIVE_CONNECTIONS_MAX = 10_000
"""Connections on a page of a screen of a live capture; a tenth of those that ended goes when there are more."""

BROWSED_LIVE_MESSAGES_MAX = 1_000
"""Messages on a page of a screen of a live capture, and again as many until the earlier ones go."""

BROWSED_FRESH_MESSAGES_MAX = 1_000
"""Messages of a live capture that wait for a screen, which takes them five times a second."""
