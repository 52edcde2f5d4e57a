from __future__ import annotations

import pytest

from pulsarscope.cli.commands.follow import FollowRequest, subject_of
from pulsarscope.model.errors import UsageError


def test_one_subject_is_followed() -> None:
    assert subject_of(FollowRequest(files=[], message="26:14")) == ("message", "26:14")
    with pytest.raises(UsageError, match=r"^give one of --connection, --producer, --consumer, --topic, --message, --txn$"):
        subject_of(FollowRequest(files=[]))
    with pytest.raises(UsageError, match=r"^give only one of --connection, "):
        subject_of(FollowRequest(files=[], topic="t", message="26:14"))


def test_an_empty_name_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"^--topic is empty: give a name$"):
        subject_of(FollowRequest(files=[], topic=""))
    with pytest.raises(UsageError, match=r"^--consumer is empty: give a name$"):
        subject_of(FollowRequest(files=[], consumer=" "))
