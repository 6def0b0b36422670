"""When a process that looks at something each second has only begun to."""

from __future__ import annotations

from datetime import datetime, timedelta

START = timedelta(seconds=15)
SILENCE = timedelta(seconds=30)


class Beginning:
    """Whether who looks has begun less than 15 s ago, at first or after half a minute of silence.

    After a restart of everything the nodes are loading their versions still: what is seen then is
    the restart, and says nothing of a version.
    """

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._last: datetime | None = None

    def lasts(self, now: datetime) -> bool:
        """To be asked at each look."""
        if self._since is None or self._last is None or now - self._last > SILENCE:
            self._since = now
        self._last = now
        return now - self._since < START
