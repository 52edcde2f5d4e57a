"""Decryption of TLS 1.2 and 1.3 (RFC 5246, RFC 8446) with the secrets of a key log.

`connection.TlsConnection.feed(items, file)` takes the items of both TCP streams of a connection and returns the items of the plaintext
streams. Pieces are named by the packets that completed their records; offsets are those of the plaintext.

The package imports nothing, because plain captures do not need it.
"""
