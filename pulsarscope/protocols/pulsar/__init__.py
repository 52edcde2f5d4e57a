"""Everything specific to Pulsar: frame layout, command table, metadata, batches, compression, session state and finding codes."""
