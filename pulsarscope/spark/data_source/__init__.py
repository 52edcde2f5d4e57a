"""The format `pulsarscope` of `spark.read` and `spark.readStream`."""
