"""Names of topics for the eye."""

from __future__ import annotations

SCHEME, NAMESPACE = "persistent://", "public/default/"


def short_topic(topic: str) -> str:
    """A topic as clients let their users write it: without the scheme and namespace that they add themselves."""
    return topic[len(SCHEME) :].removeprefix(NAMESPACE) if topic.startswith(SCHEME) else topic
