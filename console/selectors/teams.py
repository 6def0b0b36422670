"""Teams, service accounts and invitations as their pages and lists show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Prefetch, Q, QuerySet
from django.utils import timezone

from console.errors import NotFound
from console.models import Invitation, Team, TeamMembership, User, UserKind, WorkloadIdentity
from console.rules.invitations import invitation_state
from console.selectors.people import role_labels


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member with their roles in the team, and those that they have for everything."""

    membership: TeamMembership
    roles: list[str]
    global_roles: list[str]


def team_list(*, q: str = "") -> QuerySet[Team]:
    """Teams by short name, with `people` and `machines`: how many of each (one query)."""
    found = Team.objects.annotate(
        people=Count("memberships", filter=Q(memberships__user__kind=UserKind.PERSON)),
        machines=Count("memberships", filter=Q(memberships__user__kind=UserKind.SERVICE)),
    ).order_by("slug")
    return found.filter(Q(slug__icontains=q) | Q(name__icontains=q)) if q else found


def find_team(slug: str) -> Team:
    """A team. Raises NotFound."""
    team = team_list().filter(slug=slug).first()
    if team is None:
        raise NotFound(f"There is no team {slug[:64]}.", hint="See Settings → Teams.")
    return team


def members_of(team: Team) -> list[MemberRow]:
    """Its people, by name (one query)."""
    labels = role_labels()
    members = team.memberships.filter(user__kind=UserKind.PERSON).select_related("user")
    return [
        MemberRow(
            membership=one,
            roles=[labels.get(role, role) for role in one.roles],
            global_roles=[labels.get(role, role) for role in one.user.roles],
        )
        for one in members.order_by("user__display_name", "user__username")
    ]


def service_accounts() -> QuerySet[User]:
    """Service accounts by name with their team, and how many identities they have (2 queries)."""
    memberships = TeamMembership.objects.select_related("team")
    trusted = Q(workload_identities__removed_at__isnull=True)
    return (
        User.objects.filter(kind=UserKind.SERVICE)
        .prefetch_related(Prefetch("memberships", memberships))
        .annotate(identities_trusted=Count("workload_identities", filter=trusted))
        .order_by("username")
    )


def find_service_account(username: str) -> User:
    """A service account. Raises NotFound, also for a person."""
    account = service_accounts().filter(username=username).first()
    if account is None:
        raise NotFound(
            f"There is no service account {username[:64]}.",
            hint="See Settings → Service accounts.",
        )
    return account


def workloads_of(account: User) -> QuerySet[WorkloadIdentity]:
    """What speaks for the account, without what was removed (one query)."""
    return WorkloadIdentity.objects.filter(service_account=account, removed_at__isnull=True)


def invitations() -> QuerySet[Invitation]:
    """All invitations, newest first (one query)."""
    return Invitation.objects.select_related("invited_by", "accepted_by").order_by(
        "-created_at", "pk"
    )


def with_states(rows: Sequence[Invitation]) -> list[tuple[Invitation, str, list[str]]]:
    """Each with `open`, `accepted`, `expired` or `revoked`, and its roles in words."""
    now, labels = timezone.now(), role_labels()
    return [
        (
            one,
            invitation_state(
                now=now,
                expires_at=one.expires_at,
                accepted_at=one.accepted_at,
                revoked_at=one.revoked_at,
            ),
            [labels.get(role, role) for role in one.roles],
        )
        for one in rows
    ]
