"""Bounds of live captures: each with its unit and the reason for its value."""

from __future__ import annotations

LIVE_RING_BLOCK_BYTES = 512 << 10
"""Size of a block of the kernel's packet ring: the largest packet must fit, with 128 bytes about it (BIG TCP: up to 512 KiB, 185 KB in
practice). Even on a quiet interface, the kernel fills ten blocks a second: their number bounds the time for which the capture may stall,
12.8 s with the default ring."""

LIVE_RING_BYTES = 64 << 20
"""Size of the kernel's packet ring of an interface: half a second of a full 1 Gbit/s line."""

LIVE_RING_MEMORY_SHARE = 4
"""Divisor of the host's memory that limits the ring: the kernel would allocate all memory, and kill other processes."""

LIVE_QUEUE_MAX_BYTES = 64 << 20
"""Captured packets that wait to be decoded; beyond that, packets are skipped and reported, so that memory does not grow during a
capture."""

LIVE_WRITE_QUEUE_MAX_BYTES = 64 << 20
"""Captured packets that wait to be written: disks of busy hosts stall for seconds. Beyond that, packets wait in the kernel's ring."""

LIVE_STEPS_MAX = 8
"""Blocks of a live capture that several processes have begun to decode: anything beyond that waits in the queue, and is bounded with it."""

LIVE_HOLE_NANOSECONDS_MAX = 1_000_000_000
"""Age of the first bytes behind a hole after which it is a gap in a live capture, acknowledged or not: users do not wait longer for the
next frame, and nothing accumulates where packets were lost or skipped."""

LIVE_UNHEARD_NANOSECONDS = 120 * 1_000_000_000
"""Silence after which a live capture drops a connection if packets, perhaps including its end, were skipped since it was last heard:
clients and brokers of Pulsar ping each other every 30 s. Otherwise short connections would accumulate for an hour."""

LIVE_UNHEARD_MAX = 1_024
"""Connections kept in this way that have been silent for LIVE_UNHEARD_LEAST_NANOSECONDS; beyond that, those silent for longest are dropped
at once. One with a dozen messages takes up to 35 KiB with all rules: 35 MiB."""

LIVE_UNHEARD_LEAST_NANOSECONDS = 10 * 1_000_000_000
"""Shortest silence of a connection that is dropped in this way, and the interval at which they are counted."""

LIVE_CONNECTIONS_MAX = 1_024
"""Open connections known to the screen of a live run; those heard least recently make room, because each keeps some frames."""

LIVE_FRAMES_KEPT = 50
"""Latest frames of a connection kept for the screen: 16 KiB, a page of a large terminal."""

LIVE_COURSE_NAMES_MAX = 256
"""Names in each three seconds of the last minute whose course the screen shows: more than fit on it."""

LIVE_FINDINGS_KEPT = 5
"""Latest findings of each code kept for the screen."""

LIVE_FINDING_CHARACTERS_MAX = 1_000
"""Characters kept of the text of a finding for the screen: it quotes names from the wire."""

METRICS_CONNECTIONS_MAX = 16
"""Simultaneous connections to the metrics server: Prometheus opens one, and each takes a descriptor from the recording."""

METRICS_TIMEOUT_SECONDS = 5
"""Longest wait for a part of a request for metrics: idle connections must make room for others."""

METRICS_NAMES_MAX = 1_000
"""Topics, or commands, with time series of their own: the number of series determines the cost of Prometheus."""

METRICS_NAME_MAX_CHARACTERS = 1_024
"""Longest name in a time series; longer ones are truncated: a name from the wire may have megabytes, topics have some hundred
characters."""

LIVE_TRIGGER_MAX_BYTES = 256 << 20
"""Packets kept in memory before a trigger; on a faster line they cover fewer seconds."""

BROWSED_LIVE_CONNECTIONS_MAX = 10_000
"""Connections on a page of a screen of a live capture; when there are more, a tenth of those that have ended is removed."""

BROWSED_LIVE_MESSAGES_MAX = 1_000
"""Messages on a page of a screen of a live capture; twice as many may accumulate before the earlier half is removed."""

BROWSED_FRESH_MESSAGES_MAX = 1_000
"""Messages of a live capture that wait for a screen, which fetches them five times a second."""
