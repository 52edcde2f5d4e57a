"""TLS 1.2 and 1.3 (RFC 5246, RFC 8446): stream bytes → stream bytes, with the secrets of a key log.

`connection.TlsConnection.feed(items, file)` takes what `tcp` gives for both streams of a connection, and gives the same for what was said
inside. Names are those of the packets that completed the records, offsets are those of what was said inside.

Nothing is imported here: plain captures need no more of this room than `secrets`.
"""
