"""Metadata of the chunks of one message."""

from __future__ import annotations

from typing import Any

COUNT = 4


def part(chunk: int, **more: Any) -> dict[str, Any]:
    return {"uuid": "u-1", "chunk_id": chunk, "num_chunks_from_msg": COUNT, "total_chunk_msg_size": 7 * COUNT} | more
