"""The dissectors, one folder each. This tuple is the only place that lists them."""

from __future__ import annotations

from pulsarscope.protocols.kafka07.dissector import Kafka07Dissector
from pulsarscope.protocols.pulsar.dissector import PulsarDissector

DISSECTORS = (PulsarDissector, Kafka07Dissector)
"""Classes of the dissectors that come with the package, in the order in which they are tried."""
