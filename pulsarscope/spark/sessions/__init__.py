"""Spark sessions, and the processes and Java that they run in."""
