"""The commands, a module each: its options, and a function of its name."""
