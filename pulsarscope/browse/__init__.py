"""A screen to browse captures in: a list of frames that fills while they are read, and what is known of each."""
