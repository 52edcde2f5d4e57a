"""State of a stream between its batches."""
