"""What was counted in one stretch of time for one version, and how such counts add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deployments.rules.gateways.snapshots import ClusterKey, ClusterKind
from deployments.rules.statistics import histograms
from deployments.rules.statistics.histograms import Histogram

GATEWAY_ITSELF = 0
"""The version number under which answers made by the gateway are counted."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests as the gateway saw them, by who is to blame; latency in ms."""

    requests: int = 0
    caller_faults: int = 0
    provider_faults: int = 0
    statuses: Mapping[str, int] = field(default_factory=dict)
    latency: Histogram | None = None

    @property
    def rescued(self) -> int:
        """Requests that the version failed and whose callers got an answer all the same.

        They are faults of the version, and no failure of the service.
        """
        return self.statuses.get("rescued", 0)

    @property
    def version_requests(self) -> int:
        """What the version was asked: its own answers, and those that another one gave for it."""
        return self.requests + self.rescued

    @property
    def version_faults(self) -> int:
        """What the version itself failed, whatever its callers noticed of it."""
        return self.provider_faults + self.rescued

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            requests=self.requests + other.requests,
            caller_faults=self.caller_faults + other.caller_faults,
            provider_faults=self.provider_faults + other.provider_faults,
            statuses=add_counts(self.statuses, other.statuses),
            latency=merge_any(self.latency, other.latency),
        )


@dataclass(frozen=True, slots=True)
class Work:
    """What Triton did: inferences, executions (batches) and where their time went, in ns."""

    inferences: int = 0
    executions: int = 0
    queue_ns: int = 0
    compute_ns: int = 0
    failures: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(
            inferences=self.inferences + other.inferences,
            executions=self.executions + other.executions,
            queue_ns=self.queue_ns + other.queue_ns,
            compute_ns=self.compute_ns + other.compute_ns,
            failures=self.failures + other.failures,
        )

    @property
    def queue_ms(self) -> float | None:
        """Mean time in the queue of one inference."""
        return self.queue_ns / self.inferences / 1e6 if self.inferences else None

    @property
    def compute_ms(self) -> float | None:
        """Mean time in the model of one inference."""
        return self.compute_ns / self.inferences / 1e6 if self.inferences else None

    @property
    def batch_size(self) -> float | None:
        """Mean inferences in one execution."""
        return self.inferences / self.executions if self.executions else None


@dataclass(frozen=True, slots=True)
class Counted:
    """What was counted for one version: as the gateway saw it, and Triton's work."""

    traffic: Traffic = Traffic()
    work: Work = Work()

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.traffic + other.traffic, self.work + other.work)


def add_counts(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """Both sets of counters as one, without those that are 0."""
    names = [*left, *(name for name in right if name not in left)]
    sums = {name: left.get(name, 0) + right.get(name, 0) for name in names}
    return {name: count for name, count in sums.items() if count}


def merge_any(left: Histogram | None, right: Histogram | None) -> Histogram | None:
    """All values of both under the bounds that both have; no value is lost, only sharpness."""
    # One without values says nothing, not even by its bounds.
    if left is None or not left.total:
        return right or left
    if right is None or not right.total:
        return left
    if left.bounds == right.bounds:
        return histograms.merge(left, right)
    shared = sorted(set(left.bounds) & set(right.bounds))
    return histograms.merge(histograms.coarsen(left, shared), histograms.coarsen(right, shared))


def traffic_of(key: ClusterKey, grown: Mapping[str, int], latency: Histogram) -> Traffic:
    """What a gateway's counters of one cluster grew by, read as traffic.

    A 4xx is the caller's fault, a 5xx the provider's (time-outs and missing nodes are 5xx that
    the gateway makes). Answers by the gateway itself say which rule gave them.
    """
    ok, caller, provider = (grown.get(name, 0) for name in ("ok_2xx", "client_4xx", "server_5xx"))
    statuses = {
        "2xx": ok,
        "4xx": caller,
        "5xx": provider,
        "timeout": grown.get("timeout", 0),
        "no_node": grown.get("none_healthy", 0),
        "rescued": _rescued(key, grown),
    }
    if key.kind in (ClusterKind.FALLBACK, ClusterKind.RULES, ClusterKind.OPEN):
        statuses[key.kind.value] = ok + caller + provider
    return Traffic(
        # Answers, not attempts: a request that is still under way is counted when it ends.
        requests=ok + caller + provider,
        caller_faults=caller,
        provider_faults=provider,
        statuses={name: count for name, count in statuses.items() if count},
        latency=latency,
    )


def beside_answers(key: ClusterKey, grown: Mapping[str, int], latency: Histogram) -> Traffic:
    """What a cluster's counters say beside who was answered: how long it took, and what went wrong
    on the way. The answers themselves are counted where callers got them.
    """
    statuses = {
        "timeout": grown.get("timeout", 0),
        "no_node": grown.get("none_healthy", 0),
        "rescued": _rescued(key, grown),
    }
    counted = {name: count for name, count in statuses.items() if count}
    return Traffic(statuses=counted, latency=latency)


def _rescued(key: ClusterKey, grown: Mapping[str, int]) -> int:
    """Requests that failed at first and were answered by another attempt.

    Of a version on trial every such failure is its own. Elsewhere only a 5xx is: a node that
    cannot be reached says nothing of the version.
    """
    answered = grown.get("retry_success", 0)
    if key.kind is ClusterKind.RETRIED:
        return answered
    return min(answered, grown.get("retried_5xx", 0))


def counted_version(key: ClusterKey) -> int | None:
    """The version number that a cluster's traffic is booked under; None for mirrored copies."""
    if key.kind is ClusterKind.SHADOW:
        return None
    return key.version if key.version is not None else GATEWAY_ITSELF
