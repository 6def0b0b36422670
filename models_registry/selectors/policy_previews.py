"""What a policy would mean, before it is set: for open releases, and for who could approve."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from console.models import User, UserKind
from models_registry.models import Environment, Release, ReleaseState
from models_registry.rules import approval_documents
from models_registry.rules.approval_policy import Condition
from models_registry.rules.approval_rules import ApprovalRule
from models_registry.selectors.load_tests import ended_runs
from models_registry.selectors.release_policies import verdict_of, with_standing

POLICY_FIELDS = (
    "approval_rules", "approval_valid_days", "break_glass_roles", "requires_contract",
    "requires_load_test",
)  # fmt: skip
MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """An open release, and what it would still miss."""

    release: Release
    unmet: tuple[Condition, ...]

    @property
    def missing(self) -> list[str]:
        """In sentences."""
        return [one.sentence for one in self.unmet]


@dataclass(frozen=True, slots=True)
class PolicyPreview:
    """`weaker`: what would not be asked any more; `impossible`: rules that too few can meet."""

    rules: tuple[ApprovalRule, ...]
    weaker: list[str]
    impossible: list[str]
    rows: list[PreviewRow]


def policy_preview(
    environment: Environment, changes: Mapping[str, Any], *, user: User, now: datetime
) -> PolicyPreview:
    """What changing these parts of the policy would mean, in 5 queries and one for each rule.

    Of the releases that are proposed or approved, the newest 20 that the user may see. Raises
    Invalid `bad_policy`.
    """
    approval_documents.check({name: changes[name] for name in POLICY_FIELDS if name in changes})
    before = {name: getattr(environment, name) for name in POLICY_FIELDS}
    changed = copy.copy(environment)
    for name in POLICY_FIELDS:
        setattr(changed, name, changes.get(name, before[name]))
    after = {name: getattr(changed, name) for name in POLICY_FIELDS}
    rules = approval_documents.read_rules(changed.approval_rules)
    return PolicyPreview(
        rules=rules,
        weaker=approval_documents.weaker(before, after),
        impossible=_impossible(rules),
        rows=_rows(changed, user, now),
    )


def _rows(changed: Environment, user: User, now: datetime) -> list[PreviewRow]:
    states = (ReleaseState.PROPOSED, ReleaseState.APPROVED)
    releases = Release.objects.visible_to(user).filter(environment_id=changed.pk, state__in=states)
    rows = []
    for release in with_standing(releases).prefetch_related(ended_runs())[:MOST_SHOWN]:
        release.environment = changed
        rows.append(PreviewRow(release, verdict_of(release, now).unmet))
    return rows


def _impossible(rules: Sequence[ApprovalRule]) -> list[str]:
    found = []
    for rule in rules:
        if rule.seats:
            continue  # Who sits there is another person for each model.
        roles = list(rule.roles)
        able = (
            User.objects.filter(is_active=True, kind=UserKind.PERSON)
            .filter(Q(roles__overlap=roles) | Q(memberships__roles__overlap=roles))
            .distinct()
            .count()
        )
        if able < rule.count:
            number = "nobody" if able == 0 else f"only {able}"
            found.append(f"It would ask for {rule.who()}, and there is {number} at present.")
    return found
