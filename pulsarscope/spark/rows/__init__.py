"""Rows that pass between tasks, as Arrow batches."""
