"""How much may be taken on at one time: a bucket that fills again as time passes."""

from __future__ import annotations


class TokenBucket:
    """At most `a_second` takes in any second on average, and as many at once."""

    def __init__(self, a_second: float) -> None:
        self._a_second = a_second
        self._tokens = a_second
        self._at: float | None = None

    def take(self, now: float) -> bool:
        """Whether one more is taken at `now` (seconds of any clock that never goes back)."""
        if self._at is not None:
            grown = self._tokens + (now - self._at) * self._a_second
            self._tokens = min(grown, self._a_second)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
