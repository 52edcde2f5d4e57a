"""Programs that make the pages of this folder."""
