"""What callers got, answer by answer, and whom each answer counts against by the contract.

A gateway counts every request once, when it ends as its caller sees it: so the sum of these counts
is the number of requests that somebody sent, refused ones and given-up ones among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from deployments.rules.gateways.snapshots import ClusterKey, ClusterKind
from deployments.rules.statistics.rollups import GATEWAY_ITSELF, Traffic, counted_version

Against = Literal["caller", "provider", "none"]
Meanings = Mapping[int, Against]
"""Status code -> whom it counts against, for those that a contract names."""

CALLER_LEFT = "caller_left"
UNBLAMED = "unblamed"
_ANSWERED_HERE = frozenset({ClusterKind.FALLBACK, ClusterKind.RULES, ClusterKind.OPEN})


@dataclass(frozen=True, slots=True)
class Answer:
    """One kind of answer: its status (0: the caller left before there was one), the cluster that
    the request was for ("" where there was none), and what X-Model-Version said ("" for nothing;
    a fallback says so there)."""

    status: int
    cluster: str
    version: str

    @property
    def name(self) -> str:
        return f"{self.status} {self.cluster or '-'} {self.version or '-'}"

    @classmethod
    def parse(cls, name: str) -> Answer:
        """The answer that has this name. Raises ValueError for any other text."""
        status, cluster, version = name.split(" ")
        return cls(int(status), *("" if part == "-" else part for part in (cluster, version)))


def meanings_of(errors: Iterable[tuple[int, Against]]) -> dict[int, Against]:
    """What statuses mean; where one stands for several errors, the provider answers for all."""
    found: dict[int, Against] = {}
    order: tuple[Against, ...] = ("none", "caller", "provider")
    for status, against in errors:
        found[status] = max(found.get(status, against), against, key=order.index)
    return found


def against(status: int, meanings: Meanings) -> Against | None:
    """Whom an answer counts against; None for one that is as it should be.

    What the contract does not name: 4xx the caller, 5xx the provider. Who left without waiting
    for an answer is counted as the caller's own: an answer that is too late is a 504 before.
    """
    if status in meanings:
        return meanings[status]
    if 0 < status < 400:
        return None
    return "provider" if status >= 500 else "caller"


def traffic_of_answers(grown: Mapping[str, int], meanings: Meanings) -> dict[int, Traffic]:
    """Counts of one endpoint's answers as traffic of its versions (0: the gateway by itself).

    What was refused before any version had it is nobody's but the gateway's: `refused_NNN`.
    """
    found: dict[int, Traffic] = {}
    for name, count in grown.items():
        if count:
            version, traffic = _traffic(Answer.parse(name), count, meanings)
            found[version] = found.get(version, Traffic()) + traffic
    return found


def _traffic(answer: Answer, count: int, meanings: Meanings) -> tuple[int, Traffic]:
    key = ClusterKey.parse(answer.cluster)
    kind = key.kind if key else None
    version = (counted_version(key) if key else None) or GATEWAY_ITSELF
    refused = not answer.version and kind not in _ANSWERED_HERE and 400 <= answer.status < 500
    if refused:
        version = GATEWAY_ITSELF
    blamed = against(answer.status, meanings)
    statuses = {_status_name(answer.status, refused=refused): count}
    if kind in _ANSWERED_HERE and answer.status and kind is not None:
        statuses[kind.value] = count
    if blamed == "none":
        statuses[UNBLAMED] = count
    return version, Traffic(
        requests=count,
        # What counts against nobody is neither good nor bad, as a caller's own fault is.
        caller_faults=count if blamed in ("caller", "none") else 0,
        provider_faults=count if blamed == "provider" else 0,
        statuses=statuses,
    )


def _status_name(status: int, *, refused: bool) -> str:
    if not status:
        return CALLER_LEFT
    return f"refused_{status}" if refused else str(status)


def by_class(statuses: Mapping[str, int]) -> dict[str, int]:
    """Exact codes summed as `2xx`, `4xx` …, refusals with the others; the rest stays as it is."""
    found: dict[str, int] = {}
    for name, count in statuses.items():
        code = name.removeprefix("refused_")
        group = f"{code[0]}xx" if len(code) == 3 and code.isdecimal() else name
        found[group] = found.get(group, 0) + count
    return found
