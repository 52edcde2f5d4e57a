"""Jobs of the command `pipeline`, and decoding of data frames."""
