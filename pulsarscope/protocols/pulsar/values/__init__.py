"""Values of payloads, decoded by the schemas of their topics, which come from the connection or from the user."""
