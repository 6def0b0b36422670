"""Releases as lists and pages show them, and what waits for a person's word."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet

from console.errors import NotFound
from console.models import SigningKey, User
from models_registry.models import (
    ContractSignature,
    ContractState,
    Environment,
    Release,
    ReleaseApproval,
    ReleaseState,
    SeatHolder,
    ServiceContract,
)
from models_registry.rules.load_tests import Gate
from models_registry.rules.releases import Policy, Standing, standing
from models_registry.selectors.load_tests import ended_runs, gate_of

MOST_OPEN = 200


@dataclass(frozen=True, slots=True)
class ReleasePage:
    """What a release's page shows. `can_decide_as` is the viewer's role that is asked, or ""."""

    release: Release
    standing: Standing
    approvals: tuple[ReleaseApproval, ...]
    can_decide_as: str
    keys: tuple[SigningKey, ...]
    load_test: Gate


def release_list(
    *, user: User, model_name: str = "", environment: str = "", state: str = "", version: str = ""
) -> QuerySet[Release]:
    """Releases with their load tests, newest first, in 3 queries."""
    releases = _fetched(Release.objects.visible_to(user)).prefetch_related(ended_runs())
    if model_name:
        releases = releases.filter(version__model__name=model_name)
    if environment:
        releases = releases.filter(environment__name=environment)
    if state:
        releases = releases.filter(state=state)
    if version.isascii() and version.isdecimal() and len(version) < 10:
        releases = releases.filter(version__number=int(version))
    return releases


def find_release(release_id: uuid.UUID, *, user: User, model_name: str = "") -> Release:
    """One release. Raises NotFound, also when it is another model's or not to be seen."""
    releases = _fetched(Release.objects.visible_to(user).filter(pk=release_id))
    releases = releases.prefetch_related(ended_runs())
    if model_name:
        releases = releases.filter(version__model__name=model_name)
    release = releases.first()
    if release is None:
        raise NotFound("There is no such release.", hint="See the model's page for its releases.")
    return release


def release_page(user: User, release_id: uuid.UUID) -> ReleasePage:
    """A release's page, in 5 queries. Raises NotFound."""
    release = find_release(release_id, user=user)
    stands = standing_of(release)
    held = {*user.roles, *_seats(user, release)}
    decided = any(approval.person_id == user.pk for approval in release.approvals.all())
    own = release.requested_by_id == user.pk and not release.environment.author_may_approve
    asked = next((role for role in stands.missing if role in held), "")
    is_open = release.state == ReleaseState.PROPOSED and not decided and not own
    return ReleasePage(
        release=release,
        standing=stands,
        approvals=tuple(release.approvals.all()),
        can_decide_as=asked if is_open else "",
        keys=tuple(SigningKey.objects.filter(user=user)),
        load_test=gate_of(release),
    )


def policy_of(release: Release) -> Policy:
    """What the release has to meet: what was asked for then, and what its environment asks now."""
    environment = release.environment
    roles = dict.fromkeys((*release.required_roles, *environment.approver_roles))
    return Policy(
        environment.name,
        environment.requires_contract,
        tuple(roles),
        environment.author_may_approve,
    )


def standing_of(release: Release) -> Standing:
    """How far the release is by its policy; uses what `release_list` has fetched."""
    given = (approval.role for approval in release.approvals.all() if approval.approved)
    return standing(policy_of(release), given)


def environment_list() -> QuerySet[Environment]:
    """All environments by name."""
    return Environment.objects.all()


def find_environment(name: str) -> Environment:
    """One environment. Raises NotFound with what there is."""
    environment = Environment.objects.filter(name=name).first()
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


def releases_to_approve(user: User) -> list[Release]:
    """Open releases that this person may decide on, among the oldest, in 3 queries."""
    seats: dict[int, set[str]] = {}
    for model_id, seat in SeatHolder.objects.filter(user=user).values_list("model_id", "seat"):
        seats.setdefault(model_id, set()).add(seat)
    waiting = (
        _fetched(Release.objects.filter(state=ReleaseState.PROPOSED))
        .filter(~Q(requested_by=user) | Q(environment__author_may_approve=True))
        .exclude(approvals__person=user)
        .order_by("requested_at")[:MOST_OPEN]
    )
    held = set(user.roles)
    return [
        release
        for release in waiting
        if set(standing_of(release).missing) & (held | seats.get(release.version.model_id, set()))
    ]


def _fetched(releases: QuerySet[Release]) -> QuerySet[Release]:
    return releases.select_related(
        "version__model", "environment", "requested_by", "contract"
    ).prefetch_related(
        Prefetch("approvals", ReleaseApproval.objects.select_related("person", "key"))
    )


def _seats(user: User, release: Release) -> set[str]:
    return set(
        SeatHolder.objects.filter(model=release.version.model, user=user).values_list(
            "seat", flat=True
        )
    )
