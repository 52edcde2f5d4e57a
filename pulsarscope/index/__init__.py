"""The frames of captures in a file beside them: found by time, topic and connection without reading the captures again."""
