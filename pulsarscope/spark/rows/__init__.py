"""Rows that pass between tasks, as batches of Arrow."""
