"""Waiting for what happens in another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(check: Callable[[], T], seconds: float = 10.0) -> T:
    """The first true answer of `check`; fails when there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < deadline, f"it did not happen within {seconds:g} s"
        time.sleep(0.02)
