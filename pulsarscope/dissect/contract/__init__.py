"""What a dissector is: its frames, session, events, rules and optional capabilities."""
