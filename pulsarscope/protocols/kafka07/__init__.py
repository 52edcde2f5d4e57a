"""Kafka 0.7, of 2011 and 2012: requests without a version or an id, answered in the order in which they came."""
