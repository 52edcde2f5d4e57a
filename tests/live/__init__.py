"""What an interface or a pipe brings."""
