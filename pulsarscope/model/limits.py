"""Every bound with its unit, its source and the reason for its value.

A bound that can change a row counts per connection, so that the rows are the same in every way of running.
"""

from __future__ import annotations

READ_BLOCK_BYTES = 64 << 10
"""Initial size of a read: all rows of a block are in memory at once, and the first ones should come soon."""

READ_BLOCK_MAX_BYTES = 640 << 10
"""Largest read, for large packets: with 512 KiB all records cost a tenth more. 1 MiB is not faster, and takes 4 MiB more with rules."""

READ_BLOCK_PACKETS = 800
"""Target packets in a block, between these sizes: 400 large packets cost a third more; with many frames, 1,024 take 7 MiB more."""

HEAP_KEPT_BYTES = 2 << 20
"""Half of the freed memory that glibc keeps for the next block: a block and its rows take 2 MiB. If its pages went back to the kernel after
each block, faulting them in would take a tenth of a run over large packets."""

ROWS_MAX = 2_048
"""Rows passed on at once: a block of compressed batches holds millions. More are not faster, and twice as many cost Parquet 13 MiB."""

READ_BLOCK_FLOW_PACKETS = 6
"""Target average number of packets per flow in a block: with many short connections, a flow costs more than the caches save."""

JOBS_MAX = 256
"""Processes of one run: each reads all files, so more processes are slower, and thousands would overload the machine."""

PACKET_MAX_BYTES = 262_144
"""Largest captured packet (libpcap's MAXIMUM_SNAPLEN); a record that claims more is damaged."""

PCAPNG_BLOCK_MAX_BYTES = 16 << 20
"""Largest pcapng block (libpcap's limit); larger ones are damaged."""

PCAPNG_INTERFACES_MAX = 65_536
"""Interfaces kept per pcapng section; a file with more is hostile."""

INTERFACE_NAME_MAX_CHARACTERS = 255
"""Longest name of a pcapng interface, which may be part of every flow key: 15 on Linux, 50 on Windows; a path for pipes."""

PORTION_HEADERS_MAX_BYTES = 64 << 10
"""Headers, interfaces and statistics of a pcapng file read in portions, each of which needs them: hundreds fit."""

PCAPNG_OPTIONS_MAX = 256
"""Options read of one pcapng block that describes an interface: the standard has 15, of which names and addresses may repeat."""

SECRETS_MAX_BYTES = 16 << 20
"""TLS key logs kept of one pcapng file, including their blocks: enough for about 100,000 connections."""

TLS_SECRETS_MAX = 1 << 20
"""TLS secrets kept of all key logs of a run, about 250 bytes each; a connection needs up to five."""

KEY_LOG_READ_MAX_BYTES = 1 << 20
"""Bytes of a growing key log read at a time: enough for thousands of connections."""

KEY_LOG_LINE_MAX_BYTES = 4_096
"""Longest line of a key log: valid lines have fewer than 300 bytes."""

TLS_RECORD_MAX_BYTES = (16 << 10) + 2_048
"""Largest body of a TLS record (RFC 5246 section 6.2.3)."""

TLS_HANDSHAKE_MESSAGE_MAX_BYTES = 128 << 10
"""Largest handshake message parsed: certificate chains reach 100 KiB (OpenSSL's default limit)."""

TLS_WAITING_MAX_BYTES = 20 << 10
"""Bytes of a direction that wait for the other's TLS handshake, or for late secrets: one record; captures hold many foreign connections."""

TLS_FAILED_RECORDS_MAX = 16
"""Consecutive records that do not decrypt before decryption stops: a handshake with unknown keys has fewer."""

TLS_LOST_RECORDS_MAX = 16_384
"""Records lost at once, as in a gap, across which the sequence number is recovered: a megabyte of small ones; 2 to 10 µs each."""

TLS_SEARCH_BYTES = 64 << 20
"""Bytes of trial decryption per direction to recover the sequence number, counting 1 KiB per trial: 3,800 full records, 0.1 s."""

TLS_SEARCH_FACTOR = 64
"""Additional bytes of trial decryption for each byte decrypted: 0.1 s per megabyte, which allows any number of gaps in a long capture."""

TLS_NAME_MAX_CHARACTERS = 256
"""Longest name from a TLS handshake that is shown: host names are shorter (RFC 1035)."""

TLS_NAMES_MAX = 8
"""Names of a certificate, or offered protocols, that are shown."""

DECOMPRESS_RATIO_MAX = 1_000
"""Output per input byte of a compressed capture, checked after DECOMPRESS_FREE_BYTES; also of the payloads of a connection."""

DECOMPRESS_FREE_BYTES = 1 << 30
"""Output of a compressed capture before its ratio is checked: captures compress well."""

DECOMPRESS_STEP_BYTES = 4 << 10
"""Output of one step of xz, bzip2 and LZ4: as much is lost before a damaged place. Smaller steps take noticeable time."""

XZ_MEMORY_MAX_BYTES = 256 << 20
"""Memory to decompress an xz file: its highest level needs 65 MiB, but a file may ask for 4 GiB."""

VLAN_TAGS_MAX = 8
"""VLAN tags on one packet; more is a loop."""

IPV6_EXTENSION_HEADERS_MAX = 16
"""IPv6 extension headers of one packet; the decoders of Zeek and Suricata stop at similar depths."""

MPLS_LABELS_MAX = 16
"""MPLS labels in one stack; networks use up to about ten."""

TUNNELS_MAX = 8
"""Nested tunnels (Zeek: 4); a mirrored packet of an overlay in MPLS is in three, and some networks stack two of those."""

FRAGMENTS_MAX_BYTES = 4 << 20
"""IP fragments kept of one file (Linux: ipfrag_high_thresh): less than is sent before the 65,536 IPv4 identifications repeat."""

FRAGMENT_NANOSECONDS = 30 * 1_000_000_000
"""Time for which the first fragment of a packet waits for the others (Linux: ipfrag_time)."""

OUT_OF_ORDER_MAX_BYTES = 4 << 20
"""Out-of-order bytes buffered per stream (libtins: 3 MiB); beyond that the first hole is declared a gap."""

SEQUENCE_JUMP_MAX_BYTES = 1 << 30
"""Distance from the expected sequence number beyond which a segment is outside any window (RFC 7323 limits windows to 1 GiB)."""

IDLE_CONNECTION_NANOSECONDS = 3_600 * 1_000_000_000
"""Idle time after which a packet begins a new connection: one hour."""

CLOSED_CONNECTION_NANOSECONDS = 60 * 1_000_000_000
"""Time for which late packets of the same file belong to a closed connection (TIME-WAIT of Linux); its row is written after that."""

CLOSED_CONNECTIONS_MAX = 98_304
"""Closed connections of the process whose rows wait for late packets, 0.5 to 1 KiB each: one minute's worth at 1,600 a second."""

SILENT_CONNECTIONS_MAX = 32_768
"""Connections without data kept in the whole process (a SYN flood has millions); beyond that the oldest ones share one finding."""

STRAY_PACKETS_MAX = 1_024
"""Packets of an open connection for which data outside its windows are held: an acknowledgment would have arrived by then."""

INTERVALS_MAX = 1_024
"""Gaps, or ranges of dropped bytes, remembered for a stream; a late segment belongs to one of the latest."""

HOLE_PACKETS_MAX = 128
"""Packets of a connection after which a hole that the peer has acknowledged is a gap: the queues of a network card may reorder dozens."""

HOLE_NANOSECONDS_MAX = 200 * 1_000_000
"""The same bound in capture time: interrupts are delayed by less than a millisecond, longer on busy hosts."""

LATE_HOLE_PACKETS_MAX = 1_024
"""HOLE_PACKETS_MAX for a hole that is no older than twice the greatest lateness of a packet of its connection: it may still be filled."""

MEMORY_MAX_BYTES = 256 << 20
"""Buffered bytes of the whole process (Suricata's reassembly memcap); beyond that the longest-waiting connection is evicted."""

WAITING_MAX_BYTES = 192 << 20
"""The part of it that may wait for more than missing segments: parts of frames and chunks, messages without receipt, names in requests."""

FRAME_DEFAULT_MAX_BYTES = 5 * 1024 * 1024
"""Pulsar's default maxMessageSize, until CONNECTED.max_message_size says otherwise."""

FRAME_PADDING_BYTES = 10 * 1024
"""Size of a frame beyond maxMessageSize (Pulsar's MESSAGE_SIZE_FRAME_PADDING)."""

FRAME_HARD_MAX_BYTES = 64 << 20
"""Largest frame, whatever the broker announces."""

DECOMPRESSED_MAX_BYTES = 64 << 20
"""Largest decompressed entry; a larger one is a decompression bomb."""

DECOMPRESS_CONNECTION_FREE_BYTES = 256 << 20
"""Decompressed payload of one connection before its ratio is checked against DECOMPRESS_RATIO_MAX; takes half a second."""

SCHEMA_MAX_BYTES = 1 << 20
"""Largest schema; descriptors of large message families take some hundred KiB."""

NAMES_MAX_BYTES = 64 << 20
"""Largest file with names; the internal statistics of a topic take some hundred KiB, a thousand ledgers 100 KiB."""

NAMES_MAX = 1_000_000
"""Ledgers named in one run: 100 MiB."""

NAMES_MAX_DEPTH = 20
"""Nesting of objects in a file with names; those of a partitioned topic are 4 levels deep."""

SCHEMAS_MAX = 1_000
"""Schemas of one connection by topic and version, and requests for them; also compiled schemas shared by all connections."""

SCHEMAS_MAX_BYTES = 4 << 20
"""The same bound in bytes of schemas; compiled schemas take fifty times as much."""

UNREAD_ENTRIES_MAX = 1_000
"""Delivered entries of one connection that wait for the schema that their consumer requested: the default size of its queue."""

UNREAD_MAX_BYTES = 4 << 20
"""The same bound in bytes of payload."""

UNREAD_MAX_NANOSECONDS = 5 * 1_000_000_000
"""The same bound in capture time: a client requests a schema with the first message that it decodes."""

SCHEMA_DEPTH_MAX = 64
"""Nesting of types in a schema; real ones have a handful of levels."""

VALUE_DEPTH_MAX = 128
"""Nesting of lists and objects in a decoded value: each level takes four calls, and Python's recursion limit is a thousand."""

VALUES_MAX_BYTES = 8 << 20
"""Decoded values of one entry as JSON: more than the largest message of default size (5 MiB); as objects they take ten times as much."""

VALUES_MIN_BYTES = 16 << 10
"""The same bound for the smallest entries: ten bytes can encode a million empty items, and a capture holds many times ten bytes."""

VALUES_FACTOR = 128
"""Growth of that bound per byte of payload: one byte may stand for a field or symbol with a name this long."""

PROTOBUF_DEPTH_MAX = 100
"""Nesting of protobuf messages (recursion limit of upb and Java)."""

BATCH_MESSAGES_MAX = 65_536
"""Messages read from one batch; clients batch 1,000 by default, whereas a decompression bomb could hold eleven million."""

BATCH_METADATA_MAX_BYTES = 8 << 20
"""Metadata read from one batch: clients fill batches to 5 MiB with payloads; as rows, hostile properties take ten times as much."""

MESSAGE_SETS_DEPTH_MAX = 8
"""Nested compressed message sets; producers write one level, and a broker or mirror that recompresses adds one."""

CHUNKED_MESSAGES_MAX = 1_024
"""Chunked messages of one connection assembled at a time; clients keep 10 by default (maxPendingChunkedMessage)."""

PENDING_REQUESTS_MAX = 65_536
"""Requests of one connection that wait for a response (h2 remembers 2^16 closed streams)."""

NAME_MAX_CHARACTERS = 4_096
"""Longest topic, producer or subscription remembered or in a column: names have some 50 characters, hostile ones fill frames."""

PENDING_NAMES_MAX_BYTES = 16 << 20
"""Names in the waiting requests of one connection: 256 characters each; also of its producers and consumers."""

PENDING_MESSAGES_MAX = 65_536
"""Produced messages of one connection that wait for their receipt; older ones are written without ledger and entry."""

PENDING_MESSAGES_MAX_BYTES = 16 << 20
"""The same bound in bytes of finished rows."""

SHOWN_ITEMS_MAX = 1_000
"""Repeated values that a renderer shows; the count is exact, and records hold all of them."""

STATISTICS_NAMES_MAX = 4_096
"""Connections, topics or other names with numbers of their own in statistics, up to 10 KiB each; later ones are counted together."""

STATISTICS_NAME_MAX_CHARACTERS = 1_024
"""Longest text in statistics, diagnoses and comparisons; a hostile one may be as long as a frame."""

TABLE_ENTRIES_MAX = 200_000
"""Entries that wait for their acknowledgment or delivery in one table of statistics: some 200 bytes each."""

STATISTICS_ITEMS_MAX = 100
"""Items of a list in the evidence of a diagnosis; a hostile peer could cause many."""

STATISTICS_INTERVALS_MAX = 1_000
"""Points of a time series; beyond that, neighbours are merged and the interval doubles: more would not fit a screen."""

ACTIVITY_CELLS_MAX = 30_000
"""Marks in the timeline of a report: some 1 MB of the file, and as many as a browser can draw at once."""

ACTIVITY_CONNECTIONS_MAX = 200
"""Connections with a lane in that timeline, the first ones; times the commands, they are fewer than the marks."""

LATENCY_CELLS_MAX = 2_000
"""Histograms of latencies over time in a report: each takes a few hundred bytes, a wide one 10 KiB."""

COURSE_CELLS_MAX = 50_000
"""Points of the courses of all consumers: 10 MB, or a dozen per consumer when there are as many consumers as are counted."""

SLOWEST_MAX = 5
"""Slowest exchanges listed per family: enough to see what they have in common."""

DIAGNOSIS_SAMPLES_MAX = 10
"""Findings of one code with different texts that a diagnosis keeps as examples; the others are counted."""

DIAGNOSIS_NAMES_MAX = 1_000
"""Different topics and connections counted per finding code; beyond that, their number is a lower bound."""

KNOWN_ISSUE_CONNECTIONS_MAX = 10_000
"""Connections of affected versions, and of findings that may show one known issue, that a diagnosis remembers: rows come in any order."""

RECOGNITION_WINDOW_BYTES = 6 << 20
"""Start of an unknown stream that is searched for frames: one frame of the default size must end within it."""

OUT_OF_ORDER_MAX_SEGMENTS = 65_536
"""Out-of-order segments buffered per stream: 4 MiB in one-byte segments would take 1 GiB of memory."""

OPEN_CONNECTIONS_MAX = 50_000
"""Connections open at once in the whole process, 4 to 5.5 KiB each with all rules (a SYN flood has millions); beyond that, those idle for
longest are ended."""

OVERLAP_WINDOW_BYTES = 64 << 10
"""Delivered bytes of a stream with which a retransmission is compared: an unscaled window."""

OVERLAP_WINDOW_PACKETS = 8_192
"""Packets of a file during which a delivered segment is kept for comparison: bounds the memory of idle streams."""

OVERLAP_MEMORY_MAX_BYTES = 64 << 20
"""Delivered bytes kept for comparison in all streams, reached by packets above 8 KiB in 500 streams: those idle for longest lose theirs."""

DUPLICATE_NANOSECONDS = 1_000_000
"""Time within which an exact copy counts as captured twice: retransmission timers are at least 5 ms (RFC 8985, RFC 6298)."""

COPY_TIMES_MAX = 64
"""Copies of a stream's segments whose time is kept: enough for a typical one."""

DUPLICATE_SEGMENTS_PERCENT = 20
"""Share of such copies in a connection's data segments above which they are reported."""

STREAM_FINDINGS_MAX = 25
"""Findings of one code reported individually per stream; the others share one finding with counts (Zeek samples weirds from 25 on)."""

RESET_WINDOW_BYTES = OUT_OF_ORDER_MAX_BYTES
"""Distance from the seen bytes of a stream beyond which no RST or acknowledgment is believed; window scaling is not tracked."""

FILTER_MAX_CHARACTERS = 16_384
"""Longest display filter: sets of several hundred ids fit."""

FILTER_DEPTH_MAX = 100
"""Nested parentheses and negations: each takes two calls, far below Python's recursion limit."""

FILTER_PATTERN_MAX_CHARACTERS = 1_000
"""Longest regular expression of a filter."""

JOB_MEMORY_MAX_BYTES = 16 << 20
"""Results of one parallel process held in memory before its turn; further results go to a temporary file."""

JOB_PIPE_BYTES = 1 << 20
"""Pipe from a parallel process: it holds a whole result, so that the process can continue. Linux allows users no more (pipe-max-size)."""

JOB_DISK_MAX_BYTES = 1 << 30
"""Results of one parallel process in its temporary file, which may also be in memory, before it waits for its turn."""

EXTRACT_NAMED_FRAMES_MAX = 4_000_000
"""Frames whose names are kept for packet comments, 40 bytes each; for further ones only merged ranges of positions are kept."""

EXTRACT_FINDINGS_MAX = 65_536
"""Findings kept for packet comments, about 500 bytes each."""

REDACTED_BUFFERS_MAX_BYTES = 32 << 20
"""Redacted frames held in memory before they go to a temporary file."""

REDACTED_CHUNK_BYTES = 64 << 10
"""Bytes of a stream that are compressed together in that file."""

REDACTED_CHUNKS_CACHED = 64
"""Such chunks in memory while packets are made from them: a packet reads one or two, and neighbours belong to few connections."""

BROWSED_FRAMES_PER_CHUNK = 256
"""Frames that are compressed together in the temporary file of a screen: some 10 KiB, decoded within a millisecond."""

BROWSED_CHUNKS_CACHED = 64
"""Such chunks held in memory: some hundred screens; 30 MiB."""

INDEXED_FRAMES_PER_CHUNK = 4_096
"""Frames of a record batch of an index, which are compressed together: 200 KiB; a column is read within a millisecond."""

INDEXED_PACKETS_PER_CHUNK = 1 << 16
"""Packets of a record batch of an index: some MiB while they are searched."""

INDEX_CHUNKS_CACHED = 16
"""Such batches held in memory, packed: a few MiB."""

INDEX_CACHE_MAX_BYTES = 8 << 30
"""Indexes in the user's cache; beyond that, making a new one removes the oldest."""

INDEX_PORTION_BYTES = 1 << 20
"""Bytes of a capture between two places of an index at which reading can begin."""

BROWSED_FINDINGS_MAX = 10_000
"""Findings, or rows of any table, on a page of a screen; the verdict counts all."""

BROWSED_CONNECTIONS_MAX = 100_000
"""Connections on a page of a screen, a kilobyte each."""

BROWSED_LANES_FRAMES_MAX = 2_000
"""Frames in the diagram of a conversation: more than anyone reads, drawn within a second."""

FOLLOW_REQUESTS_MAX = 8_192
"""Requests that `follow` keeps until their answers show whether they match: a thousand SENDs in flight are common; about 12 MiB."""

FOLLOW_NAMES_MAX = 65_536
"""Connections, topics, producers or subscriptions that `follow` numbers and lists, and ended ones that filters know; about 10 MiB."""

FACTS_PER_KEY_MAX = 1_000
"""Facts kept of one key: the first and the last ones explain a finding."""

FACTS_MAX_BYTES = 8 << 20
"""Memory of pending facts of all cross-connection rules in a process: enough for 16,000 messages in flight; beyond that, the keys without
new facts for longest are evaluated."""

JOURNEYS_MAX_BYTES = 128 << 20
"""Additional memory for facts when journeys are requested: enough for 150,000 messages, which is seconds to minutes of traffic."""

JOURNEY_IDLE_NANOSECONDS = 900_000_000_000
"""Silence after which the journey of a message is over: what comes later has a row of its own. Live rows are delayed by this much."""

PERFETTO_TRACKS_MAX = 65_536
"""Names of tracks whose slices are remembered, to keep them from overlapping: producers, consumers and bookies of a large cluster."""

ANCHORS_MAX = 8
"""Anchors that one connection contributes, by which it is recognised as a leg of a path: a lost packet hides one or two of them."""

ANCHOR_NANOSECONDS_MAX = 10 * 1_000_000_000
"""Time for which an anchor waits for that of another leg: proxies forward frames within milliseconds, with a full buffer within seconds."""

ANCHORS_WAITING_MAX = 20_000
"""Anchors that wait at a time, about a quarter of a KiB each; twice as many for a short time."""

ANCHORS_OF_KEY_MAX = 64
"""Equal anchors that wait: clients that all reconnect at once send the same requests with the same ids."""

LEGS_MAX = 10_000
"""Pairs of legs that are remembered, the latest ones."""

EARLY_MESSAGES_MAX = 64
"""First messages of a connection that are remembered until its first anchors show whether it is a leg."""

EARLY_CONNECTIONS_MAX = 1_000
"""Connections whose first messages are remembered, 20 KiB each: the latest ones."""

HELD_ROWS_MAX = 32
"""First frames of a connection that wait to be counted until it may be recognised as a leg: a client asks for a few things at first."""

HELD_ROWS_NANOSECONDS = 5 * 1_000_000_000
"""Longest time for which they wait: brokers answer the first requests within a second or two."""

HELD_CONNECTIONS_MAX = 1_024
"""Connections whose first frames wait, about a quarter of a KiB each: those of two seconds at 500 connections per second."""

EVALUATED_KEYS_MAX = 7 << 16
"""Keys evaluated early that are remembered, so that later facts are recognised: four bytes each."""

PRIVATE_KEY_MAX_BYTES = 1 << 20
"""Largest file of a private key: one of 16,384 bits takes 13 KB in PEM."""

DATA_KEYS_MAX = 1_024
"""Decrypted data keys cached per connection: a producer uses one at a time, and a new one every four hours."""

DATA_KEYS_FAILED_MAX = 4_096
"""Encrypted data keys of a connection that may fail to decrypt before no more are tried: 256 hostile bytes cost a millisecond or more."""

CHUNKS_MAX_BYTES = 64 << 20
"""Pending chunks of one connection: a larger message would not be decompressed either."""

REGISTRY_MAX_BYTES = 256 << 20
"""Largest dump of ZooKeeper, which itself keeps everything in memory; most clusters have a few megabytes."""
