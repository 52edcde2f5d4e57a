"""Faults and their near-misses, each a conversation with parameters."""
