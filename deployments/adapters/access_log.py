"""Reading a gateway's access log: a span of time out of a large file, and out of its rotated ones.

The log is one JSON object a line, in the order in which requests ended, with lines of Envoy's own
between them. The beginning of a span is found by halving, so that a large file is not read whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

MOST_BYTES = 64 * 1024 * 1024
MOST_LINES = 200_000
LONGEST_REQUEST = timedelta(minutes=2)
"""A line bears when its request began, and lies where it ended: so far the two may be apart."""

_PROBE = 64 * 1024
_LONGEST_LINE = 256 * 1024
"""A disk that was full can leave a hole of gigabytes without a line break."""
_CLOSE = 256 * 1024


@dataclass(slots=True)
class Reading:
    """What was read; `truncated` when a bound ended it, `missing` when there is no log."""

    most_lines: int = MOST_LINES
    lines: int = 0
    bytes: int = 0
    truncated: bool = False
    missing: bool = False


def files_of(path: Path) -> list[Path]:
    """The log and what was rotated beside it (`name.log.1`), oldest first."""
    rotated = [path.with_suffix(f".log.{number}") for number in range(9, 0, -1)]
    rotated += [path.with_name(f"{path.name}.{number}") for number in range(9, 0, -1)]
    return [one for one in dict.fromkeys((*rotated, path)) if one.is_file()]


def between(
    path: Path, start: datetime, end: datetime, reading: Reading, *, containing: str = ""
) -> Iterator[dict[str, Any]]:
    """Lines of requests that began within the span, as they were logged; `reading` is filled.

    `containing` skips lines without these characters before they are parsed.
    """
    files = files_of(path)
    reading.missing = not files
    wanted = containing.encode()
    for file in files:
        try:
            with file.open("rb") as source:
                yield from _of_file(source, start, end, reading, wanted)
        except OSError:
            continue
        if reading.truncated:
            return


def _of_file(
    source: BinaryIO, start: datetime, end: datetime, reading: Reading, wanted: bytes
) -> Iterator[dict[str, Any]]:
    source.seek(_beginning(source, start))
    until = end + LONGEST_REQUEST
    while raw := source.readline(_LONGEST_LINE):
        if reading.bytes >= MOST_BYTES or reading.lines >= reading.most_lines:
            reading.truncated = True
            return
        reading.bytes += len(raw)
        if raw[:1] != b"{" or (wanted and wanted not in raw):
            continue
        line = _parsed(raw)
        at = _moment(line)
        if at is None:
            continue
        if at > until:
            return
        if start <= at <= end:
            reading.lines += 1
            yield line


def _beginning(source: BinaryIO, start: datetime) -> int:
    """An offset before which every request ended before the span began."""
    low, high = 0, source.seek(0, 2)
    while high - low > _CLOSE:
        middle = (low + high) // 2
        at = _moment_after(source, middle)
        if at is None or at >= start:
            high = middle
        else:
            low = middle
    return low


def _moment_after(source: BinaryIO, offset: int) -> datetime | None:
    """When the first request logged after the offset began; None without one close by."""
    source.seek(offset)
    source.readline(_PROBE)
    read = 0
    while read < _PROBE and (raw := source.readline(_PROBE)):
        read += len(raw)
        if raw[:1] == b"{" and (at := _moment(_parsed(raw))) is not None:
            return at
    return None


def _parsed(raw: bytes) -> dict[str, Any]:
    """A line as what was logged; empty for what is no such line."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return line if isinstance(line, dict) else {}


def _moment(line: dict[str, Any]) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(line.get("time", "")))
    except ValueError:
        return None
    # A time without a zone cannot be told from others: the line is of somebody else's making.
    return at if at.tzinfo is not None else None
