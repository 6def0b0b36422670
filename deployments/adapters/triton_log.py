"""The end of Triton's log, as the node's own worker sees it."""

from __future__ import annotations

from pathlib import Path

MOST_BYTES = 4 * 1024 * 1024
"""Read from the end: hours of an ordinary server, seconds of a busy one with verbose logging."""


def tail(path: Path, *, most: int = MOST_BYTES) -> str | None:
    """The last whole lines of the log; None when it is not there or may not be read."""
    if not path.is_file():
        # To open a pipe would wait for somebody who writes into it.
        return None
    try:
        with path.open("rb") as source:
            source.seek(0, 2)
            size = source.tell()
            source.seek(max(0, size - most))
            data = source.read(most)
    except OSError:
        return None
    if size > most:
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace")
