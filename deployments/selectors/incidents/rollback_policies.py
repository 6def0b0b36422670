"""An endpoint's rollback policy, and where it stands on the levels."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from deployments.models import Deployment, Endpoint, RollbackPolicy
from deployments.rules.incidents import rollback_policies as rules
from deployments.rules.incidents.escalation import hold_of
from deployments.rules.incidents.escalation_state import Phase, Progress, read_progress


@dataclass(frozen=True, slots=True)
class PolicyInForce:
    """An endpoint's policy: its own, or without one (revision 0) the environment's default."""

    automatic: bool
    policy: rules.RollbackPolicy
    revision: int
    changed_by: str = ""


def policy_in_force(endpoint: Endpoint, row: RollbackPolicy | None) -> PolicyInForce:
    """What holds for an endpoint. By default production acts by itself, and nothing else does."""
    if row is None:
        return PolicyInForce(endpoint.environment.production, rules.RollbackPolicy(), 0)
    return PolicyInForce(
        row.automatic,
        rules.parse_policy(row.document),
        row.revision,
        "" if row.revision == 0 else row.changed_by.username,
    )


@dataclass(frozen=True, slots=True)
class Redeploying:
    """The last good version that is deployed again; `states` are those of its placements."""

    version: int
    deployment_id: str
    by_hand: bool
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Standing:
    """Policy and progress of one endpoint; `returns_at` is when the next return is due."""

    endpoint: Endpoint
    in_force: PolicyInForce
    progress: Progress
    redeploying: Redeploying | None
    returns_at: datetime | None

    @property
    def probe_percent(self) -> float | None:
        """The share that tries the version now; None when none does."""
        split = self.endpoint.current
        return split.probe / 100 if split is not None and split.probe else None


def standing_of(endpoint: Endpoint) -> Standing:
    """The endpoint's policy and where it stands; at most three queries."""
    row = RollbackPolicy.objects.filter(endpoint=endpoint).select_related("changed_by").first()
    in_force = policy_in_force(endpoint, row)
    progress = read_progress(row.progress.get("rule", {})) if row else Progress()
    returns_at = None
    if in_force.automatic and progress.phase is Phase.HELD and progress.since:
        returns_at = progress.since + hold_of(in_force.policy, progress.failures)
    return Standing(endpoint, in_force, progress, _redeploying(row), returns_at)


def _redeploying(row: RollbackPolicy | None) -> Redeploying | None:
    under_way = row.progress.get("redeploy") if row else None
    if under_way is None:
        return None
    deployment = Deployment.objects.filter(pk=under_way["deployment"]).first()
    states = deployment.placements.values_list("state", flat=True) if deployment else ()
    return Redeploying(
        version=under_way["version"],
        deployment_id=under_way["deployment"],
        by_hand=under_way["by_hand"],
        states=tuple(states),
    )
