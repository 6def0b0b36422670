"""What it means that a person goes: everything that hangs on them, before anybody decides."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils import timezone
from django.utils.module_loading import import_string

from console.models import ApiToken, Invitation, Job, Role, SigningKey, User
from console.rules import duties as rules
from console.rules.duties import Duty


@dataclass(frozen=True, slots=True)
class Departure:
    """What a person carries and has; `last_admin` stops it, the rest is handed over or ended."""

    person: User
    duties: tuple[Duty, ...]
    last_admin: bool
    keys: int
    tokens: int
    jobs: int
    invitations: int

    @property
    def to_hand_over(self) -> list[Duty]:
        return [duty for duty in self.duties if duty.needs_successor]

    @property
    def approvals(self) -> list[Duty]:
        return [duty for duty in self.duties if not duty.needs_successor]


def departure_of(person: User) -> Departure:
    """What would have to be seen to (a few queries, and a few for each seat)."""
    now = timezone.now()
    duties: list[Duty] = import_string(rules.DUTIES_OF)(person, now=now)
    tokens = ApiToken.objects.filter(user=person, revoked_at__isnull=True, expires_at__gt=now)
    invitations = Invitation.objects.filter(
        invited_by=person, accepted_at__isnull=True, revoked_at__isnull=True, expires_at__gt=now
    )
    return Departure(
        person=person,
        duties=tuple(duties),
        last_admin=is_last_admin(person),
        keys=SigningKey.objects.filter(user=person, revoked_at__isnull=True).count(),
        tokens=tokens.count(),
        jobs=Job.objects.filter(requested_by=person, state__in=("queued", "running")).count(),
        invitations=invitations.count(),
    )


def is_last_admin(person: User) -> bool:
    """Whether without this person nobody could manage people any more."""
    if not person.is_active or not person.has_role(Role.PLATFORM_ADMIN):
        return False
    admins = User.objects.filter(is_active=True, roles__contains=[Role.PLATFORM_ADMIN])
    return not admins.exclude(pk=person.pk).exists()
