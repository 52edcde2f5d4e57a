"""Payloads as values: what the schemas of their topics, learned from the connection or given, make of the bytes."""
