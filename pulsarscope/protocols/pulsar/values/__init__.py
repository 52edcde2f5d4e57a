"""Values of payloads, decoded by the schemas of their topics: those of the connection, and those that the user brings."""
