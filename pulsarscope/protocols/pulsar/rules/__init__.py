"""What goes wrong between Pulsar clients and brokers, one theme a module: its finding codes beside the rule that says them."""

from __future__ import annotations

from pulsarscope.findings import join_codes
from pulsarscope.protocols.pulsar.rules import requests
from pulsarscope.wire.rules import Rules

RULES = Rules(
    codes=join_codes((requests.CODES,)),
    connection=(requests.Requests,),
    keys=(),
    messages=False,
)
