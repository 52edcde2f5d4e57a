"""The commands, one module each: its options, and a function with the name of the command."""
