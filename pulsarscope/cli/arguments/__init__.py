"""Command lines: options, their defaults from configuration files, and what they request."""
