"""All that is Pulsar: frame layout, command table, metadata, batches, compression, its session state and finding codes."""
