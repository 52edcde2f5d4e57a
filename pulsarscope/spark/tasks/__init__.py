"""Work of the tasks: scanning, decoding, evaluating rules across connections."""
