"""What makes the pages of this folder."""
