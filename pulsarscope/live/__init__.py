"""Packets as they happen: interfaces and pipes, read into the blocks that captures give."""
