"""Tests of live capture."""
