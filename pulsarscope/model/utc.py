"""Times as findings and users write them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone


def utc_seconds(text: str) -> int:
    """Return the seconds since the epoch of a UTC time such as 2026-05-01T10:00:00Z. Raises ValueError for another text.

    Before Python 3.11, `datetime.fromisoformat` does not accept Z.
    """
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def utc_nanoseconds(text: str) -> int:
    """Return the nanoseconds since the epoch of a date or time, in UTC unless it has a zone, as in 2026-05-01T10:00:00.123+02:00.

    Raises ValueError for another text.
    """
    date, zone, fraction = text, "+00:00", ""
    if text.endswith("Z"):
        date = text[:-1]
    elif len(text) > 19 and text[-6] in "+-":
        date, zone = text[:-6], text[-6:]
    date, _, fraction = date.partition(".")
    if not (date[4:5] == date[7:8] == "-" and len(date) in {10, 16, 19} and (fraction + "0").isdecimal() and len(fraction) <= 9):
        raise ValueError(text)
    moment = datetime.fromisoformat(date)
    moment = datetime.fromisoformat(f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + zone)
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (moment - epoch) // timedelta(seconds=1) * 1_000_000_000 + int(fraction.ljust(9, "0"))
