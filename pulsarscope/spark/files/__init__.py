"""Captures at URIs, and the files of tables."""
