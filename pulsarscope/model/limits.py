"""Every bound in one place, with its unit, its source and why it has this value.

A bound that can change a row counts per connection, so that every way of running agrees on the rows.
"""

from __future__ import annotations

READ_BLOCK_BYTES = 64 << 10
"""Bytes read at a time, at first: all rows of a block are in memory at once, and those of 64 KiB of small packets stay in the caches
(256 KiB: 10 % slower)."""

READ_BLOCK_MAX_BYTES = 1 << 20
"""Bytes read at a time when packets are large: what is done once per block and connection would cost more than the packets."""

READ_BLOCK_PACKETS = 400
"""Packets that a block shall hold, between these two: as many as 64 KiB hold of small ones."""

HEAP_KEPT_BYTES = 2 << 20
"""Freed memory that glibc keeps for the next block is twice this: a block and what is made of it take 2 MiB. Given back to the kernel after
each block, its pages have to come anew: a tenth of a run over large packets."""

ROWS_MAX = 2_048
"""Rows handed on at once: a block of compressed batches holds millions; more are not faster, and twice as many take Parquet 13 MiB more."""

READ_BLOCK_FLOW_PACKETS = 6
"""Packets that a block shall hold of each flow in it, on average: with many short connections a flow costs more than the caches save."""

PACKET_MAX_BYTES = 262_144
"""Largest captured packet (libpcap's MAXIMUM_SNAPLEN); a record that claims more is damage, not a packet."""

PCAPNG_BLOCK_MAX_BYTES = 16 << 20
"""Largest pcapng block read (libpcap's limit); larger ones are damage."""

PCAPNG_INTERFACES_MAX = 65_536
"""Interfaces kept per pcapng section; a file with more is hostile."""

INTERFACE_NAME_MAX_CHARACTERS = 255
"""Of a pcapng interface's name, which may stand behind every flow key: those of Linux have 15, of Windows 50, of pipes those of a path."""

PORTION_HEADERS_MAX_BYTES = 64 << 10
"""Headers, interfaces and their statistics in a pcapng file that is read in portions: each portion begins with those before it. Hundreds of
interfaces fit."""

SECRETS_MAX_BYTES = 16 << 20
"""TLS key logs kept of one pcapng file: about 100,000 connections; the rest is not kept."""

TLS_SECRETS_MAX = 1 << 20
"""TLS secrets kept of all key logs of a run, about 250 bytes each; five of them open a connection. The rest is not kept."""

KEY_LOG_LINE_MAX_BYTES = 4_096
"""Longest line read of a key log: the longest that has a meaning has fewer than 300 bytes."""

TLS_RECORD_MAX_BYTES = (16 << 10) + 2_048
"""Largest body of a TLS record (RFC 5246 section 6.2.3); what claims more is none."""

TLS_HANDSHAKE_MESSAGE_MAX_BYTES = 128 << 10
"""Largest handshake message looked at: chains of certificates come to 100 KiB (OpenSSL's default limit)."""

TLS_WAITING_MAX_BYTES = 20 << 10
"""Bytes of one direction of a TLS connection that wait for the other one's handshake, or for secrets that come late, as those of tools that
take them from running processes do; one record fits, and a capture holds many connections of others."""

TLS_FAILED_RECORDS_MAX = 16
"""Records one after the other that do not decrypt: then no more is tried. A handshake whose keys are not given has fewer."""

TLS_LOST_RECORDS_MAX = 16_384
"""Records that may be lost at once, in a gap for one, and their count be found again: a megabyte of small ones; 2 to 10 µs each."""

TLS_SEARCH_BYTES = 64 << 20
"""Bytes that may be tried to find the count of one direction's records again, with 1 KiB for each trial: 3,800 full records, 0.1 s."""

TLS_SEARCH_FACTOR = 64
"""More of them, for each byte of records that were opened: 0.1 s for a megabyte, so any number of gaps in a long capture."""

TLS_NAME_MAX_CHARACTERS = 256
"""Longest name off a TLS handshake that is shown: those of hosts have fewer (RFC 1035)."""

TLS_NAMES_MAX = 8
"""Names of one certificate, or protocols offered, that are shown."""

DECOMPRESS_RATIO_MAX = 1_000
"""Output per input byte of a .gz or .zst capture, looked at once DECOMPRESS_FREE_BYTES have come out."""

DECOMPRESS_FREE_BYTES = 1 << 30
"""Output of a compressed capture before its ratio is judged: 1 GiB, captures compress well."""

VLAN_TAGS_MAX = 8
"""VLAN tags on one packet; more is a loop."""

IPV6_EXTENSION_HEADERS_MAX = 16
"""IPv6 extension headers walked; Zeek's and Suricata's decoders stop at like depths."""

MPLS_LABELS_MAX = 16
"""Labels in one MPLS stack; networks use up to about ten."""

TUNNELS_MAX = 8
"""Tunnels in each other (Zeek: 4); a mirrored packet of an overlay in MPLS is in three, and networks that stack two of those exist."""

FRAGMENTS_MAX_BYTES = 4 << 20
"""IP fragments kept of one file (Linux keeps as much: ipfrag_high_thresh). Less than what is sent before the 65,536 numbers of IPv4
packets begin again, so that fragments of different packets do not meet."""

FRAGMENT_NANOSECONDS = 30 * 1_000_000_000
"""How long the first fragment of a packet that came waits for the others (Linux's ipfrag_time)."""

OUT_OF_ORDER_MAX_BYTES = 4 << 20
"""Bytes a stream keeps beyond a hole (libtins: 3 MiB); then the oldest hole is declared a gap."""

SEQUENCE_JUMP_MAX_BYTES = 1 << 30
"""A segment further than this from the expected sequence number is out of any window (RFC 7323 caps windows at 1 GiB)."""

IDLE_CONNECTION_NANOSECONDS = 3_600 * 1_000_000_000
"""A packet more than one hour after the last one of its connection starts a new connection."""

CLOSED_CONNECTION_NANOSECONDS = 60 * 1_000_000_000
"""How long a live capture waits for stray packets of a closed connection (TIME-WAIT of Linux): its row is written then."""

CLOSED_CONNECTIONS_MAX = 8_192
"""Connections closed in one file whose row waits for stray packets; beyond that the oldest row is written. Half as many wait with every
file that follows: twice as many of all files together, and no file's depend on what other files hold."""

MEMORY_MAX_BYTES = 256 << 20
"""Waiting bytes of the whole process (Suricata's reassembly memcap); beyond that the longest-waiting connection is evicted."""

FRAME_DEFAULT_MAX_BYTES = 5 * 1024 * 1024
"""Pulsar's default maxMessageSize, until CONNECTED.max_message_size says otherwise."""

FRAME_PADDING_BYTES = 10 * 1024
"""What a frame may have beyond maxMessageSize (Pulsar's MESSAGE_SIZE_FRAME_PADDING)."""

FRAME_HARD_MAX_BYTES = 64 << 20
"""No broker setting makes us wait for a larger frame."""

DECOMPRESSED_MAX_BYTES = 64 << 20
"""Largest output of one entry; more is a bomb."""

SCHEMA_MAX_BYTES = 1 << 20
"""Largest schema that is kept; descriptors of large families of messages take some hundred KiB."""

SCHEMAS_MAX = 1_000
"""Schemas that are remembered of one connection, by topic and version, and requests for them; readers of schemas that all share."""

SCHEMAS_MAX_BYTES = 4 << 20
"""The same bound in bytes: the readers of schemas take fifty times as much."""

UNREAD_ENTRIES_MAX = 1_000
"""Delivered entries of one connection that wait for the schema which their consumer asks for: its queue holds so many by default."""

UNREAD_MAX_BYTES = 4 << 20
"""The same bound in bytes of payload."""

UNREAD_MAX_NANOSECONDS = 5 * 1_000_000_000
"""The same bound in time of the capture: a client that asks does so with the first message that it opens."""

SCHEMA_DEPTH_MAX = 64
"""Nesting of types in a schema; written ones have a handful."""

VALUE_DEPTH_MAX = 128
"""Nesting of lists and objects in a decoded value: Python's recursion takes four calls a level, and has a thousand."""

VALUES_MAX_BYTES = 8 << 20
"""What the values of one entry may take, as JSON, roughly: more than the largest message of default size (5 MiB), objects take ten times
of it."""

VALUES_LEAST_BYTES = 16 << 10
"""The same bound for the smallest of entries: ten bytes can say a million empty items, and a capture holds many times ten bytes."""

VALUES_FACTOR = 128
"""The bound grows so many times as fast as the payload: a byte may be a field or a symbol with a name so long."""

PROTOBUF_DEPTH_MAX = 100
"""Nesting of messages in messages (upb's and Java's recursion limit)."""

BATCH_MESSAGES_MAX = 65_536
"""Messages read from one batch; clients put 1,000 into one by default, a decompressed bomb could hold eleven million."""

BATCH_METADATA_MAX_BYTES = 8 << 20
"""Metadata read from one batch: clients fill a batch to 5 MiB at most, payloads included; in rows, a bomb of properties takes ten times as
much."""

MESSAGE_SETS_DEPTH_MAX = 8
"""Compressed message sets within each other; producers write one, and a broker or mirror that compresses again one more."""

CHUNKED_MESSAGES_MAX = 1_024
"""Chunked messages of one connection that are put together at a time; clients keep 10 by default (maxPendingChunkedMessage)."""

PENDING_REQUESTS_MAX = 65_536
"""Requests of one connection that wait for a response (h2 remembers 2^16 closed streams)."""

PENDING_MESSAGES_MAX = 65_536
"""Produced messages of one connection that wait for their receipt; older ones are written without ledger and entry."""

PENDING_MESSAGES_MAX_BYTES = 16 << 20
"""The same bound in bytes of finished rows."""

SHOWN_ITEMS_MAX = 1_000
"""Repeated values shown by a renderer; the count is always exact, and records hold all."""

STATISTICS_NAMES_MAX = 4_096
"""Connections, topics, producers, subscriptions, commands or families counted one by one in statistics, each; those met later are counted
together. More than anyone reads; one with a wide histogram takes 10 KiB, so each of these lists stays below 40 MiB."""

STATISTICS_NAME_MAX_CHARACTERS = 1_024
"""Longest text kept in statistics, diagnoses and comparisons; a hostile one is as long as a frame."""

STATISTICS_ITEMS_MAX = 100
"""Items kept of each list in the evidence of a diagnosis; rules give few, a hostile peer could make them give many."""

STATISTICS_INTERVALS_MAX = 1_000
"""Points of a time series; when a capture needs more, two neighbours become one and the interval doubles: more would not fit a screen."""

SLOWEST_MAX = 5
"""Slowest exchanges named for each family: enough to see whether they have something in common."""

DIAGNOSIS_SAMPLES_MAX = 10
"""Findings of one code, with different texts, kept whole in a diagnosis; the rest is counted: an example explains, a thousand hide."""

DIAGNOSIS_NAMES_MAX = 1_000
"""Different topics and connections remembered of each finding code; beyond it their number is said to be at least so many."""

RECOGNITION_WINDOW_BYTES = 6 << 20
"""How far into a stream an unknown connection is searched for frames: one frame of the default size must end within."""

OUT_OF_ORDER_MAX_SEGMENTS = 65_536
"""Segments a stream keeps beyond a hole: 4 MiB in one-byte segments would cost a gibibyte."""

OPEN_CONNECTIONS_MAX = 131_072
"""Connections open at once in the whole process (a SYN flood has millions); beyond that the longest idle are ended."""

OVERLAP_WINDOW_BYTES = 64 << 10
"""Delivered bytes of a stream that a retransmission is compared with: an unscaled window."""

OVERLAP_WINDOW_PACKETS = 8_192
"""How many packets of its file a delivered segment stays comparable: bounds what idle streams keep."""

DUPLICATE_NANOSECONDS = 1_000_000
"""An exact copy within this time was captured twice: retransmission timers are at least 5 ms (RFC 8985, RFC 6298)."""

DUPLICATE_SEGMENTS_PERCENT = 20
"""Share of a connection's data segments that are such copies from which on it is said."""

STREAM_FINDINGS_MAX = 25
"""Findings of one code that a stream gives one by one; the rest is one finding with counts (Zeek samples weirds from 25 on)."""

RESET_WINDOW_BYTES = OUT_OF_ORDER_MAX_BYTES
"""A reset this far outside what was seen of its stream is not believed; window scales are not tracked."""

FILTER_MAX_CHARACTERS = 16_384
"""Longest display filter: sets of a few hundred ids fit."""

FILTER_DEPTH_MAX = 100
"""Parentheses and negations within each other: far from Python's own limit on recursion, which each of them costs two calls."""

FILTER_PATTERN_MAX_CHARACTERS = 1_000
"""Longest regular expression of a filter."""

JOB_FLOWS_MAX = 1 << 18
"""4-tuples that are compared to tell which files share a connection (40 MiB); of more, all files are taken to share one."""

JOB_MEMORY_MAX_BYTES = 16 << 20
"""What one process of several may have ready in memory before its turn comes; the next goes to a temporary file."""

JOB_DISK_MAX_BYTES = 1 << 30
"""What one process of several may have ready in its temporary file, which may be memory, too; then it waits for its turn."""

EXTRACT_NAMED_FRAMES_MAX = 4_000_000
"""Frames whose names packet comments can hold: 40 bytes each; of more, only where they are is kept, together where they are neighbours."""

EXTRACT_FINDINGS_MAX = 65_536
"""Findings kept for packet comments, about 500 bytes each."""

STORY_REQUESTS_MAX = 8_192
"""Requests that `follow` keeps because their answer may belong to the story: a thousand SENDs in flight are usual; about 12 MiB."""

FACTS_PER_KEY_MAX = 1_000
"""Facts kept of one key: a story is told by its beginning and its end."""

FACTS_MAX_BYTES = 8 << 20
"""What the facts of all cross-connection rules of a process that wait to be judged may take: those of 16,000 messages in flight; beyond
that those keys are judged that were silent longest."""

EARLY_KEYS_MAX = 7 << 16
"""Keys judged early that are known as such, should one more fact come for them: four bytes each."""

PRIVATE_KEY_MAX_BYTES = 1 << 20
"""Largest file taken for a private key: one of 16,384 bits takes 13 KB in PEM."""

DATA_KEYS_MAX = 1_024
"""Encrypted data keys of one connection whose answer is remembered: a producer has one at a time, and a new one every four hours."""

DATA_KEYS_FAILED_MAX = 4_096
"""Encrypted data keys of one connection that may turn out not to be for the private keys given, before no more are tried: each costs a
millisecond or more of RSA for 256 bytes of hostile input."""

CHUNKS_MAX_BYTES = 64 << 20
"""What the chunks that wait on one connection may take: a whole message would not be decompressed beyond that, either."""

REGISTRY_MAX_BYTES = 256 << 20
"""A dump of ZooKeeper, which keeps all of it in memory, too, and holds a few megabytes for most clusters."""

LIVE_RING_BLOCK_BYTES = 1 << 20
"""A block of the ring that the kernel fills with packets: the largest packet must fit, and one block is decoded at a time."""

LIVE_RING_BYTES = 64 << 20
"""What the kernel may hold of an interface before it drops packets: half a second of a full 1 Gbit/s line."""

LIVE_RING_MEMORY_SHARE = 4
"""The ring takes at most one part in so many of the host's memory: the kernel would take it all, and kill who needs the rest."""

LIVE_QUEUE_MAX_BYTES = 64 << 20
"""Captured packets that wait to be decoded; beyond that decoding skips them, in the open: a capture never grows in memory."""

METRICS_NAMES_MAX = 1_000
"""Topics, or commands, with time series of their own; Prometheus and who pays for it count each of them."""

METRICS_NAME_MAX_CHARACTERS = 1_024
"""Of a name in a time series; more is cut. A name off the wire may have megabytes, topics have some hundred characters."""

LIVE_TRIGGER_MAX_BYTES = 256 << 20
"""Packets that wait in memory for a trigger; when a line is faster than that, fewer seconds are saved."""
