"""Live capture from network interfaces and pipes, decoded into the same blocks as capture files."""
