"""Streams cut into frames: lengths, recognition by content, resync."""
