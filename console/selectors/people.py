"""What the settings pages show of people, keys and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Greatest
from django.utils import timezone
from django.utils.module_loading import import_string

from console.actors import SYSTEM_USERNAME
from console.errors import NotFound
from console.models import (
    ApiToken,
    Role,
    Session,
    SigningKey,
    TeamMembership,
    User,
    UserKind,
)
from console.rules.duties import SEATS_HELD


@dataclass(frozen=True, slots=True)
class PersonRow:
    """A person with what a list tells of them.

    `roles`, and those in `teams` (short name, name, roles), are in the reader's language; seats are
    (model's name, seat).
    """

    person: User
    roles: list[str]
    teams: list[tuple[str, str, list[str]]]
    seats: list[tuple[str, str]]
    last_seen: datetime | None
    team_roles: dict[str, list[str]]


def people(*, q: str = "", role: str = "", team: str = "", state: str = "active") -> QuerySet[User]:
    """Persons by name, without the installation itself and service accounts (one query).

    `role` counts whether it is held globally or in a team; `state` is active, deactivated or all.
    """
    found = persons().annotate(last_seen=_last_seen()).order_by("username")
    if q:
        found = found.filter(
            Q(username__icontains=q) | Q(display_name__icontains=q) | Q(email__icontains=q)
        )
    if role:
        inside = TeamMembership.objects.filter(roles__contains=[role])
        found = found.filter(Q(roles__contains=[role]) | Q(pk__in=inside.values("user")))
    if team:
        found = found.filter(pk__in=TeamMembership.objects.filter(team__slug=team).values("user"))
    if state in ("active", "deactivated"):
        found = found.filter(is_active=state == "active")
    return found


def people_rows(rows: Sequence[User], *, viewer: User) -> list[PersonRow]:
    """The rows of one page with teams and seats, in 2 queries however many they are."""
    labels = role_labels()
    ids = [person.pk for person in rows]
    teams: dict[int, list[tuple[str, str, list[str]]]] = {}
    team_roles: dict[int, dict[str, list[str]]] = {}
    for member in (
        TeamMembership.objects.filter(user__in=ids).select_related("team").order_by("team__name")
    ):
        words = [labels.get(role, role) for role in member.roles]
        teams.setdefault(member.user_id, []).append((member.team.slug, member.team.name, words))
        team_roles.setdefault(member.user_id, {})[member.team.slug] = sorted(member.roles)
    seats = seats_held(ids, viewer=viewer)
    return [
        PersonRow(
            person=person,
            roles=[labels.get(role, role) for role in person.roles],
            teams=teams.get(person.pk, []),
            seats=seats.get(person.pk, []),
            last_seen=getattr(person, "last_seen", None),
            team_roles=team_roles.get(person.pk, {}),
        )
        for person in rows
    ]


def find_person(username: str) -> User:
    """A person, with `last_seen`. Raises NotFound."""
    person = persons().annotate(last_seen=_last_seen()).filter(username=username).first()
    if person is None:
        raise NotFound(
            f"There is nobody with the name {username[:64]}.", hint="See Settings → People."
        )
    return person


def persons() -> QuerySet[User]:
    """Everybody who can sign in, or could."""
    return User.objects.filter(kind=UserKind.PERSON).exclude(username=SYSTEM_USERNAME)


def seats_held(person_ids: Sequence[int], *, viewer: User) -> dict[int, list[tuple[str, str]]]:
    """(model's name, seat) of each person, as far as the viewer may know (one query)."""
    held: dict[int, list[tuple[str, str]]] = import_string(SEATS_HELD)(person_ids, viewer=viewer)
    return held


def role_labels() -> dict[str, str]:
    """The roles' names in the reader's language."""
    return {value: str(label) for value, label in Role.choices}


def keys_of(user: User) -> QuerySet[SigningKey]:
    """A person's signing keys, newest first (one query)."""
    return SigningKey.objects.filter(user=user).select_related("user").order_by("-enrolled_at")


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """Somebody's tokens, newest first (one query); of workloads' short ones those still valid."""
    lasting = Q(workload__isnull=True) | Q(expires_at__gt=timezone.now())
    return ApiToken.objects.filter(lasting, user=user).order_by("-created_at")


def token_state(token: ApiToken, now: datetime) -> str:
    """`revoked`, `expired` or `active`."""
    if token.revoked_at is not None:
        return "revoked"
    return "active" if token.expires_at > now else "expired"


def _last_seen() -> Greatest:
    """The last sign of life: a sign-in, a session that asked for a page, a token that was used."""
    sessions = Session.objects.filter(user=OuterRef("pk")).order_by().values("user")
    tokens = ApiToken.objects.filter(user=OuterRef("pk")).order_by().values("user")
    return Greatest(
        F("last_login"),
        Subquery(sessions.annotate(at=Max("last_seen_at")).values("at")),
        Subquery(tokens.annotate(at=Max("last_used_at")).values("at")),
    )
