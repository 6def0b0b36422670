"""A release's policy and how it stands, as the one rule (rules/approval_policy) takes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.utils import timezone

from console.models import TeamMembership, User, UserKind
from console.rules.key_life import outcome_of
from models_registry.models import (
    BreakGlass,
    ContractState,
    Environment,
    FreezeWindow,
    Release,
    ReleaseApproval,
    SeatHolder,
    ServiceContract,
)
from models_registry.rules import approval_documents, break_glass, contract_validity
from models_registry.rules.approval_policy import (
    BoundContract,
    Facts,
    Policy,
    Verdict,
    Waiver,
    evaluate,
    may_approve,
)
from models_registry.rules.approval_rules import Approval, ApprovalRule, Authors, with_promised
from models_registry.rules.freezes import Window
from models_registry.selectors.load_tests import gate_of

MOST_PEOPLE = 50


def with_standing(releases: QuerySet[Release]) -> QuerySet[Release]:
    """The releases with what `verdict_of` reads of them, load tests apart; 2 queries more."""
    in_force = _in_force(timezone.now()).filter(model=OuterRef("version__model"))
    return (
        releases.select_related(
            "version__model",
            "version__created_by",
            "environment",
            "requested_by",
            "contract",
            "break_glass__person",
            "break_glass__key",
            "break_glass__reviewed_by",
        )
        .annotate(
            has_contract_in_force=Exists(in_force),
            document_in_force=Subquery(in_force.values("document")[:1]),
        )
        .prefetch_related(
            Prefetch("approvals", ReleaseApproval.objects.select_related("person", "key")),
            open_windows("environment__freeze_windows"),
        )
    )


def open_windows(path: str) -> Prefetch[str, QuerySet[FreezeWindow], str]:
    """For a prefetch: the windows that were not lifted, with who made them."""
    return Prefetch(
        path,
        FreezeWindow.objects.filter(lifted_at__isnull=True).select_related("created_by"),
        to_attr="open_windows",
    )


def windows_of(environment: Environment) -> tuple[Window, ...]:
    """The environment's freeze windows; 1 query unless `open_windows` has fetched them."""
    fetched: Sequence[FreezeWindow] | None = getattr(environment, "open_windows", None)
    if fetched is None:
        fetched = list(environment.freeze_windows.filter(lifted_at__isnull=True))
    return tuple(
        Window(row.name, row.starts_at, row.ends_at, row.weekly, row.reason) for row in fetched
    )


def rules_for(environment: Environment, promised: Collection[str]) -> tuple[ApprovalRule, ...]:
    """The environment's approval rules, with what a contract promises for it on top."""
    return with_promised(environment.rules, promised)


def promised_roles(release: Release) -> tuple[str, ...]:
    """The approvals that contracts promise for the release's environment, unverified.

    Those of the contract that it names and, once another took its place, of that one as well.
    """
    contract = release.contract
    if contract is None:
        return ()
    documents = [contract.document]
    if contract.state == ContractState.SUPERSEDED and (now := _document_in_force(release)):
        documents.append(now)
    lists = [(one.get("approvals") or {}).get(release.environment.name) or () for one in documents]
    return tuple(dict.fromkeys(role for roles in lists for role in roles))


def _document_in_force(release: Release) -> dict[str, Any] | None:
    """The contract that is in force for the release's model; 1 query unless fetched before."""
    if hasattr(release, "document_in_force"):
        fetched: dict[str, Any] | None = release.document_in_force
        return fetched
    found = _in_force(timezone.now()).filter(model=release.version.model)
    return found.values_list("document", flat=True).first()


def policy_of(release: Release, *, promised: Collection[str] | None = None) -> Policy:
    """What the release has to meet; `promised` from its contract when that was verified."""
    environment = release.environment
    roles = promised_roles(release) if promised is None else promised
    return Policy(
        environment=environment.name,
        rules=rules_for(environment, roles),
        asked=approval_documents.read_rules(release.required_rules),
        valid_days=environment.approval_valid_days,
        requires_contract=environment.requires_contract,
        requires_load_test=environment.requires_load_test,
        windows=windows_of(environment),
    )


def facts_of(release: Release, now: datetime) -> Facts:
    """How the release stands; uses what `with_standing` has fetched."""
    return Facts(
        authors=Authors(release.requested_by.username, release.version.created_by.username),
        approvals=tuple(
            Approval(
                person=one.person.username,
                at=one.at,
                roles=frozenset(one.roles),
                seats=frozenset(one.seats),
                is_person=one.person.kind == UserKind.PERSON,
                doubted=is_doubted(one),
            )
            for one in release.approvals.all()
            if one.approved and one.superseded_at is None
        ),
        contract=_contract_of(release, now),
        load_test=gate_of(release),
        waiver=_waiver_of(release),
    )


def is_doubted(approval: ReleaseApproval) -> bool:
    """Whether its key was compromised before it signed: then it counts for nothing new."""
    key = approval.key
    return key is not None and outcome_of(approval.at, key.doubted_from) != "stays_valid"


def verdict_of(release: Release, now: datetime) -> Verdict:
    """Every condition of the release's policy at this time."""
    return evaluate(policy_of(release), facts_of(release, now), now)


def broken_glass(release: Release) -> BreakGlass | None:
    """How the release went past its policy, if it did."""
    found: BreakGlass | None = getattr(release, "break_glass", None)
    return found


def candidate(user: User, release: Release, now: datetime) -> Approval:
    """The approval that this person would give now, with what they hold (1 query)."""
    model = release.version.model
    seats = SeatHolder.objects.filter(model=model, user=user).values_list("seat", flat=True)
    return Approval(
        person=user.username,
        at=now,
        roles=user.roles_in(model.team_id),
        seats=frozenset(seats),
        is_person=user.kind == UserKind.PERSON,
    )


def people_who_may(
    release: Release, policy: Policy, facts: Facts, now: datetime
) -> list[tuple[User, Approval]]:
    """Active people whose approval would fill a place that is empty now, in 3 queries.

    Of many, the first fifty by name are looked at.
    """
    model = release.version.model
    seats: dict[int, set[str]] = defaultdict(set)
    for user_id, seat in SeatHolder.objects.filter(model=model).values_list("user_id", "seat"):
        seats[user_id].add(seat)
    team: dict[int, frozenset[str]] = {}
    if model.team_id is not None:
        members = TeamMembership.objects.filter(team_id=model.team_id).order_by("user_id")
        team = {user: frozenset(roles) for user, roles in members.values_list("user_id", "roles")}
    wanted = sorted({role for rule in (*policy.rules, *policy.asked) for role in rule.roles})
    people = User.objects.filter(is_active=True, kind=UserKind.PERSON).filter(
        Q(roles__overlap=wanted or [""]) | Q(pk__in=[*seats, *team])
    )
    found = []
    for user in people.order_by("username")[:MOST_PEOPLE]:
        given = Approval(
            person=user.username,
            at=now,
            roles=frozenset(user.roles) | team.get(user.pk, frozenset()),
            seats=frozenset(seats.get(user.pk, ())),
        )
        if may_approve(policy, facts, given, now):
            found.append((user, given))
    return found


def _contract_of(release: Release, now: datetime) -> BoundContract:
    contract = release.contract
    if contract is None:
        return BoundContract(None)
    any_in_force: bool | None = getattr(release, "has_contract_in_force", None)
    if any_in_force is None:
        any_in_force = _in_force(now).filter(model=release.version.model).exists()
    day, state = contract_validity.day_of(now), contract.state
    if state == ContractState.IN_FORCE and contract.valid_until and contract.valid_until < day:
        state = ContractState.EXPIRED
    return BoundContract(contract.revision, state, any_in_force)


def _in_force(now: datetime) -> QuerySet[ServiceContract]:
    """Contracts in force that day; the timer that marks the others may be late."""
    day = contract_validity.day_of(now)
    return ServiceContract.objects.filter(state=ContractState.IN_FORCE).filter(
        Q(valid_until__isnull=True) | Q(valid_until__gte=day)
    )


def _waiver_of(release: Release) -> Waiver | None:
    broken = broken_glass(release)
    if broken is None:
        return None
    return break_glass.waiver(person=broken.person.username, at=broken.at, waived=broken.waived)
