"""The work of the tasks: scanning, decoding, evaluating rules across connections."""
