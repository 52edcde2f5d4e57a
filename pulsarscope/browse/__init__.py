"""A screen for browsing captures: a list of frames that fills while they are read, and the details of each frame."""
