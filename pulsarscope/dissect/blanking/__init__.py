"""Blank content in place of what must not be shared."""
