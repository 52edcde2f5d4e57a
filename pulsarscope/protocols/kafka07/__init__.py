"""Kafka 0.7 (2011, 2012): requests have no version or id, and are answered in order of arrival."""
