"""How a person signs in and where they are signed in, for their settings: six queries."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils import timezone
from django_otp.plugins.otp_static.models import StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

from console.models import ExternalIdentity, Passkey, Session, User
from console.rules.sign_in_means import means_words

MOST_SESSIONS = 50


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session of a person; `here` is the one that asks."""

    session: Session
    means: tuple[str, ...]
    here: bool


@dataclass(frozen=True, slots=True)
class Security:
    """All of it; `more_sessions` says that there are more than are listed."""

    app: TOTPDevice | None
    recovery_codes: int
    passkeys: list[Passkey]
    identities: list[ExternalIdentity]
    sessions: list[SessionRow]
    more_sessions: bool
    has_password: bool

    @property
    def has_second_factor(self) -> bool:
        """Whether a sign-in by password is asked for more."""
        return self.app is not None or bool(self.passkeys)

    @property
    def others(self) -> int:
        """How many sessions there are beside this one."""
        return sum(1 for row in self.sessions if not row.here)


def security_of(user: User, *, session_key: str) -> Security:
    """What the page shows of `user`, whose browser has the session `session_key`."""
    found = list(sessions_of(user)[: MOST_SESSIONS + 1])
    rows = [
        SessionRow(row, means_words(row.means), row.session_key == session_key)
        for row in found[:MOST_SESSIONS]
    ]
    return Security(
        app=TOTPDevice.objects.filter(user=user, confirmed=True).first(),
        recovery_codes=StaticToken.objects.filter(device__user=user).count(),
        passkeys=list(user.passkeys.all()),
        identities=list(user.identities.all()),
        sessions=sorted(rows, key=lambda row: not row.here),
        more_sessions=len(found) > MOST_SESSIONS,
        has_password=user.has_usable_password(),
    )


def sessions_of(user: User) -> list[Session]:
    """The person's sessions that have not run out, those seen last first; at most 51."""
    return list(
        Session.objects.filter(user=user, expire_date__gt=timezone.now())
        .defer("session_data")
        .order_by("-last_seen_at")[: MOST_SESSIONS + 1]
    )
