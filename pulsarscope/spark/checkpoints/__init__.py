"""The state of a stream between its batches."""
