"""Kafka 0.7 (2011, 2012): requests without a version or an id, answered in the order of their arrival."""
