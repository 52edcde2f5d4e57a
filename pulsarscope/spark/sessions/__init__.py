"""Spark sessions, and the processes and Java in which they run."""
