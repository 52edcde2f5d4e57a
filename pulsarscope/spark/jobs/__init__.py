"""Jobs of the command `pipeline`, and the decoding of data frames."""
