"""Tests with a real broker and real clients."""
