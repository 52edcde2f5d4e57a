from __future__ import annotations

from pulsarscope.topics import short_topic


def test_topics_lose_what_clients_add_themselves() -> None:
    assert short_topic("persistent://public/default/orders") == "orders"
    assert short_topic("persistent://shop/eu/orders") == "shop/eu/orders"
    assert short_topic("non-persistent://public/default/x") == "non-persistent://public/default/x"
