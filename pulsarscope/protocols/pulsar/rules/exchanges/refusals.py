"""What to do about a refusal, by the name of its error."""

from __future__ import annotations

from pulsarscope.protocols.pulsar.text.formatting import error_text

_ADVICE = {
    "MetadataError": "Look at the broker's log and at its metadata store, such as ZooKeeper.",
    "PersistenceError": "Look at the broker's log and at its bookies, which keep the topic's ledgers.",
    "ServiceNotReady": "The broker loads or unloads the topic, or starts: a client asks again by itself; if it goes on, unload the bundle.",
    "TopicNotFound": "Create the topic, or mend its name; the broker or its namespace does not allow automatic creation "
    "(allowAutoTopicCreation), or the namespace is missing.",
    "UnknownError": "The broker failed in a way that it has no code for, maybe a bug: see its log at that time.",
    "UnsupportedVersionError": "The client is too old for the broker, or the broker for the client: update it.",
}

_NO_SUBSCRIPTION = (
    "Create the subscription, or mend its name; the broker or its namespace does not allow automatic creation "
    "(allowAutoSubscriptionCreation)."
)

_BY_MESSAGE = {
    "max allowed delivery delay": "The limit is maxDeliveryDelayInMillis in the policies of the topic or namespace: shorten the delay, or "
    "raise it.",
    "Namespace is deleted": "Its topics are gone with it: stop their clients, or create the namespace again.",
    "Namespace not found": "Its tenant or namespace does not exist: mend the name of the topic, or create the namespace.",
    "Policies not found": "Its tenant or namespace does not exist: mend the name of the topic, or create the namespace.",
    "Encryption is required": "Give the producer a public key (CryptoKeyReader), or end the namespace's policy encryptionRequired.",
    "Range conflict": "The hash ranges of two sticky consumers overlap: give each its own, or let the broker divide them (autoSplit).",
    " listener": "The client asks for a listener (listenerName) that is not among the broker's advertisedListeners: leave it out, or add "
    "it.",
    "attempting to unsubscribe": "Only the last consumer of a subscription can unsubscribe: close the others first, or delete the "
    "subscription with pulsar-admin topics unsubscribe --force.",
    "Target broker isn't available": "The proxy does not reach the broker that the client asked for: see its log, whether the broker "
    "runs, and brokerProxyAllowedHostNames.",
    "maximum number of subscriptions": "The limit is maxSubscriptionsPerTopic: delete subscriptions that nobody uses, or raise it.",
    "maximum number of topics": "The limit is maxTopicsPerNamespace: delete topics that nobody uses, or raise it.",
    "maximum number of connections": "The limit is brokerMaxConnections or brokerMaxConnectionsPerIp: share one client in each process, "
    "or raise it.",
}
"""Advice by a part of the broker's message, where the name of the error says less."""


def refusal_text(title: str, request: str | None, error: str | None, message: str | None) -> str:
    """Return the sentence about a refused request, whose `title` begins it, followed by advice on this error and message of the broker."""
    text = f"{title} was refused with {error_text(error, message)}."
    if (request, error) == ("SUBSCRIBE", "SubscriptionNotFound"):
        return f"{text} {_NO_SUBSCRIPTION}"
    advice = next((advice for part, advice in _BY_MESSAGE.items() if part in (message or "")), _ADVICE.get(error or ""))
    return f"{text} {advice}" if advice else text
