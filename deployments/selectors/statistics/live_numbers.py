"""Live numbers of endpoints as typed data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from deployments.adapters import live_store

NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class VersionNumbers:
    """One version's (or everybody's) numbers; shares 0 to 1, times in ms; None: nobody called."""

    requests_per_second: float = 0.0
    provider_share: float | None = None
    caller_share: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    queue_ms: float | None = None
    compute_ms: float | None = None
    batch_size: float | None = None


@dataclass(frozen=True, slots=True)
class LiveNumbers(VersionNumbers):
    """An endpoint's numbers with when they were measured; version 0 is the gateway itself.

    `shadow` are those of mirrors, whose answers no caller got.
    """

    at: datetime = NEVER
    versions: Mapping[int, VersionNumbers] = field(default_factory=dict)
    shadow: Mapping[int, VersionNumbers] = field(default_factory=dict)


def latest(keys: Iterable[str]) -> dict[str, LiveNumbers]:
    """The newest numbers of each endpoint ("env/model") that has any; {} when Redis is away."""
    return {key: _typed(values) for key, values in live_store.latest(keys).items() if values}


def _typed(values: dict[str, Any]) -> LiveNumbers:
    at = datetime.fromtimestamp(values["at"], UTC)
    return LiveNumbers(
        **_numbers(values),
        at=at,
        versions=_by_version(values["versions"]),
        shadow=_by_version(values.get("shadow", {})),
    )


def _by_version(values: Mapping[str, Any]) -> dict[int, VersionNumbers]:
    return {int(number): VersionNumbers(**_numbers(one)) for number, one in values.items()}


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    names = VersionNumbers.__dataclass_fields__
    return {name: value for name, value in values.items() if name in names}
