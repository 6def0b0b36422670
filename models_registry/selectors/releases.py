"""Releases as lists and pages show them, and what waits for a person's word."""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet

from console.errors import NotFound
from console.models import SigningKey, User, UserKind
from models_registry.models import (
    BreakGlass,
    ContractSignature,
    ContractState,
    Environment,
    Release,
    ReleaseApproval,
    ReleaseState,
    SeatHolder,
    ServiceContract,
)
from models_registry.rules import freezes
from models_registry.rules.approval_policy import (
    Policy,
    Verdict,
    check_may_approve,
    evaluate,
    may_approve,
)
from models_registry.rules.approval_rules import Approval, Authors
from models_registry.rules.freezes import Frozen
from models_registry.rules.load_tests import Gate
from models_registry.selectors.load_tests import ended_runs
from models_registry.selectors.release_policies import (
    candidate,
    facts_of,
    open_windows,
    people_who_may,
    policy_of,
    windows_of,
    with_standing,
)

MOST_OPEN = 200
BROKEN_GLASS = {
    "yes": {"break_glass__isnull": False},
    "no": {"break_glass__isnull": True},
    "open": {"break_glass__isnull": False, "break_glass__reviewed_at__isnull": True},
}


@dataclass(frozen=True, slots=True)
class ReleasePage:
    """What a release's page shows. `can_decide_as` is the viewer's role that is asked, or "".

    `people`: who could fill an approval that is missing, with what they hold. `renewed`:
    approvals that lapsed and were given again. `glass_roles`: the viewer's roles that may break
    the glass.
    """

    release: Release
    policy: Policy
    verdict: Verdict
    authors: Authors
    approvals: tuple[ReleaseApproval, ...]
    renewed: tuple[ReleaseApproval, ...]
    people: tuple[tuple[User, Approval], ...]
    can_decide_as: str
    glass_roles: tuple[str, ...]
    keys: tuple[SigningKey, ...]
    load_test: Gate


@dataclass(frozen=True, slots=True)
class EnvironmentFreeze:
    """A freeze of an environment that is running, or begins soon."""

    environment: str
    frozen: Frozen
    running: bool


def release_list(
    *,
    user: User,
    model_name: str = "",
    environment: str = "",
    state: str = "",
    version: str = "",
    broken_glass: str = "",
    q: str = "",
) -> QuerySet[Release]:
    """Releases with what their policy reads, newest first, in 4 queries.

    `broken_glass`: yes, no, or open for those that nobody has looked into. `q` is a part of the
    model's name.
    """
    releases = with_standing(Release.objects.visible_to(user)).prefetch_related(ended_runs())
    if model_name:
        releases = releases.filter(version__model__name=model_name)
    if q:
        releases = releases.filter(version__model__name__icontains=q)
    if environment:
        releases = releases.filter(environment__name=environment)
    if state:
        releases = releases.filter(state=state)
    if version.isascii() and version.isdecimal() and len(version) < 10:
        releases = releases.filter(version__number=int(version))
    if broken_glass in BROKEN_GLASS:
        releases = releases.filter(**BROKEN_GLASS[broken_glass])
    return releases


def find_release(release_id: uuid.UUID, *, user: User, model_name: str = "") -> Release:
    """One release. Raises NotFound, also when it is another model's or not to be seen."""
    releases = with_standing(Release.objects.visible_to(user).filter(pk=release_id))
    releases = releases.prefetch_related(ended_runs())
    if model_name:
        releases = releases.filter(version__model__name=model_name)
    release = releases.first()
    if release is None:
        raise NotFound("There is no such release.", hint="See the model's page for its releases.")
    return release


def release_page(user: User, release_id: uuid.UUID, now: datetime) -> ReleasePage:
    """A release's page, in 7 queries, 10 while approvals are missing. Raises NotFound."""
    release = find_release(release_id, user=user)
    policy, facts = policy_of(release), facts_of(release, now)
    verdict = evaluate(policy, facts, now)
    decisions = list(release.approvals.all())
    is_open = takes_approvals(release, verdict)
    people = people_who_may(release, policy, facts, now) if is_open else []
    mine = candidate(user, release, now)
    decides = is_open and user.is_active and may_approve(policy, facts, mine, now)
    model = release.version.model
    return ReleasePage(
        release=release,
        policy=policy,
        verdict=verdict,
        authors=facts.authors,
        approvals=tuple(one for one in decisions if one.superseded_at is None),
        renewed=tuple(one for one in decisions if one.superseded_at is not None),
        people=tuple(people),
        can_decide_as=check_may_approve(policy, facts, mine, now) if decides else "",
        glass_roles=tuple(
            role
            for role in release.environment.break_glass_roles
            if role in user.roles_in(model.team_id)
        ),
        keys=tuple(SigningKey.objects.filter(user=user)),
        load_test=facts.load_test,
    )


def reviews_due(user: User) -> QuerySet[BreakGlass]:
    """Releases against the policy, of others, that nobody has looked into: oldest first."""
    return (
        BreakGlass.objects.filter(
            reviewed_at__isnull=True, release__in=Release.objects.visible_to(user).values("pk")
        )
        .exclude(person=user)
        .select_related("person", "release__version__model", "release__environment")
        .order_by("at")
    )


def takes_approvals(release: Release, verdict: Verdict) -> bool:
    """Whether an approval may still be given: it is open, or an approval it had does not do."""
    if release.state == ReleaseState.PROPOSED:
        return True
    return release.state == ReleaseState.APPROVED and not verdict.approved


def freezes_near(now: datetime) -> list[EnvironmentFreeze]:
    """Environments that are frozen, or will be within three days, the nearest first; 2 queries."""
    found = []
    for environment in environment_list():
        windows = windows_of(environment)
        running = freezes.frozen_at(windows, now)
        frozen = running or freezes.next_freeze(windows, now)
        if frozen is not None:
            found.append(EnvironmentFreeze(environment.name, frozen, running is not None))
    return sorted(found, key=lambda one: (not one.running, one.frozen.since))


def environment_list() -> QuerySet[Environment]:
    """All environments by name, with their freeze windows, in 2 queries."""
    return Environment.objects.prefetch_related(open_windows("freeze_windows"))


def find_environment(name: str) -> Environment:
    """One environment. Raises NotFound with what there is."""
    environment = environment_list().filter(name=name).first()
    if environment is None:
        names = ", ".join(Environment.objects.values_list("name", flat=True)) or "none yet"
        raise NotFound(
            f"There is no environment named {name[:40]}.",
            code="unknown_environment",
            hint=f"Environments are: {names}.",
        )
    return environment


def contracts_to_sign(user: User) -> QuerySet[ServiceContract]:
    """Open proposals that wait for the signature of a seat of this person, oldest first."""
    signed = ContractSignature.objects.filter(contract=OuterRef("pk"))
    seat_signed = ContractSignature.objects.filter(
        contract=OuterRef(OuterRef("pk")), seat=OuterRef("seat")
    )
    waiting = SeatHolder.objects.filter(user=user, model=OuterRef("model")).filter(
        ~Exists(seat_signed)
    )
    return (
        ServiceContract.objects.filter(Exists(waiting), state=ContractState.PROPOSED)
        .filter(~Exists(signed.filter(signer=user)))
        .select_related("model", "proposed_by")
        .order_by("proposed_at")
    )


def releases_to_approve(user: User, now: datetime) -> list[Release]:
    """Open releases that this person may decide on, among the oldest, in 5 queries."""
    seats: dict[int, set[str]] = defaultdict(set)
    for model_id, seat in SeatHolder.objects.filter(user=user).values_list("model_id", "seat"):
        seats[model_id].add(seat)
    decided = ReleaseApproval.objects.filter(
        release=OuterRef("pk"), person=user, superseded_at__isnull=True
    )
    waiting = (
        with_standing(Release.objects.visible_to(user).filter(state=ReleaseState.PROPOSED))
        .filter(~Exists(decided))
        .prefetch_related(ended_runs())
        .order_by("requested_at")[:MOST_OPEN]
    )
    found = []
    for release in waiting:
        model = release.version.model
        mine = Approval(
            person=user.username,
            at=now,
            roles=user.roles_in(model.team_id),
            seats=frozenset(seats.get(model.pk, ())),
            is_person=user.kind == UserKind.PERSON,
        )
        if may_approve(policy_of(release), facts_of(release, now), mine, now):
            found.append(release)
    return found
