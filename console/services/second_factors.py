"""Second factors of a person: an authenticator app, recovery codes, passkeys; and their loss."""

from __future__ import annotations

from base64 import b32encode
from dataclasses import dataclass
from urllib.parse import quote

from django.db import transaction
from django.utils import timezone
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from console import live
from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound
from console.models import Passkey, Severity, User
from console.services import audit
from console.services.notices import notify
from console.services.one_time_codes import has_app
from console.services.recovery_codes import make_recovery_codes, recovery_codes_left
from console.services.sessions import forget_sessions

ISSUER = "Covenant"


@dataclass(frozen=True, slots=True)
class Factors:
    """What a person has set up beside their password."""

    app: bool
    passkeys: int
    recovery_codes: int

    @property
    def any(self) -> bool:
        """Whether a sign-in by password is asked for more."""
        return self.app or self.passkeys > 0


@dataclass(frozen=True, slots=True)
class AppSecret:
    """What an authenticator app is set up with: an otpauth address, and its secret to type."""

    uri: str
    secret: str


def factors_of(user: User) -> Factors:
    """What the person has now."""
    return Factors(has_app(user), user.passkeys.count(), recovery_codes_left(user))


def begin_app(*, user: User, renew: bool) -> AppSecret:
    """A secret for an app that is to be set up; with `renew` a new one, that nobody saw before."""
    with transaction.atomic():
        if renew:
            TOTPDevice.objects.filter(user=user, confirmed=False).delete()
        device = TOTPDevice.objects.filter(user=user, confirmed=False).first()
        if device is None:
            device = TOTPDevice.objects.create(user=user, name="authenticator app", confirmed=False)
    secret = b32encode(device.bin_key).decode().rstrip("=")
    label = quote(f"{ISSUER}:{user.username}")
    uri = f"otpauth://totp/{label}?secret={secret}&issuer={ISSUER}"
    return AppSecret(uri, " ".join(secret[i : i + 4] for i in range(0, len(secret), 4)))


def confirm_app(*, code: str, actor: Actor) -> list[str]:
    """Take the app into use with its first code; gives ten recovery codes, shown this once.

    An app that was in use before ends. Whoever calls has asked again who it is. Raises Invalid
    (`wrong_code`), Conflict when there is nothing to confirm.
    """
    require(actor, "second_factor.manage_own")
    digits = "".join(code.split())
    with transaction.atomic():
        device = (
            TOTPDevice.objects.select_for_update().filter(user=actor.user, confirmed=False).first()
        )
        if device is None:
            raise Conflict(
                "There is no authenticator app waiting to be confirmed.",
                code="nothing_to_confirm",
                hint="Begin again under Settings → Sign-in and security.",
            )
        # A secret that only its owner has seen is not guessed at: no throttling here.
        device.throttling_failure_count = 0
        right = digits.isascii() and digits.isdecimal() and device.verify_token(digits)
        codes: list[str] = []
        if right:
            TOTPDevice.objects.filter(user=actor.user, confirmed=True).delete()
            device.confirmed = True
            device.save(update_fields=["confirmed"])
            codes = make_recovery_codes(actor.user)
            _record(actor, "second_factor.add", after={"factor": "totp"})
    if not right:
        raise Invalid(
            "This is not the code that your authenticator app shows for this secret.",
            code="wrong_code",
            hint="Look that the clocks of your phone and of this server are right, and enter the "
            "code of now.",
            errors=(FieldError("/code", "Not the code that the app shows now for this secret."),),
        )
    return codes


def remove_app(*, actor: Actor) -> None:
    """Stop asking for codes; whoever calls has asked again. Raises NotFound."""
    require(actor, "second_factor.manage_own")
    with transaction.atomic():
        removed, _ = TOTPDevice.objects.filter(user=actor.user, confirmed=True).delete()
        if not removed:
            raise NotFound("You have no authenticator app set up.")
        forget_codes_without_factor(actor.user)
        _record(actor, "second_factor.remove", before={"factor": "totp"})


def renew_recovery_codes(*, actor: Actor) -> list[str]:
    """Ten new codes in place of the old ones; whoever calls has asked again.

    Raises Conflict without a factor that they stand in for.
    """
    require(actor, "second_factor.manage_own")
    if not factors_of(actor.user).any:
        raise Conflict(
            "Recovery codes stand in for a second factor, and you have none.",
            code="no_second_factor",
            hint="Set up an authenticator app or a passkey first.",
        )
    with transaction.atomic():
        codes = make_recovery_codes(actor.user)
        _record(actor, "recovery_codes.renew", after={"count": len(codes)})
    return codes


def forget_codes_without_factor(user: User) -> None:
    """Recovery codes stand in for a factor: without one they go."""
    if not factors_of(user).any:
        StaticDevice.objects.filter(user=user).delete()


def reset_second_factors(*, username: str, reason: str, actor: Actor) -> User:
    """Take all second factors from somebody who lost theirs; their sessions end, they are told.

    For platform admins, after they made sure who asks. Raises Invalid without a reason, NotFound.
    """
    require(actor, "user.manage")
    if not reason.strip():
        raise Invalid(
            "Say why the second factor is taken away.",
            code="reason_missing",
            hint="Write how you made sure that it is the person who asked.",
            errors=(FieldError("/reason", "A reason is required."),),
        )
    with transaction.atomic():
        person = User.objects.select_for_update(of=("self",)).filter(username=username).first()
        if person is None:
            raise NotFound(f"There is nobody with the name {username}.")
        before = factors_of(person)
        TOTPDevice.objects.filter(user=person).delete()
        StaticDevice.objects.filter(user=person).delete()
        Passkey.objects.filter(user=person).delete()
        forget_sessions(person)
        notify(
            people=[person],
            kind="second_factor.reset",
            key=f"second-factor-reset:{person.pk}:{timezone.now().isoformat()}",
            subject=f"user {person.username}",
            subject_url="/settings/security/",
            severity=Severity.WARNING,
            data={"by": actor.user.username, "reason": reason.strip()[:300]},
        )
        audit.record(
            actor=actor,
            action="second_factor.reset",
            subject=f"user {person.username}",
            before={
                "app": before.app,
                "passkeys": before.passkeys,
                "recovery_codes": before.recovery_codes,
            },
            reason=reason.strip(),
        )
        live.publish(f"inbox:{person.username}", "person.changed")
    return person


def _record(
    actor: Actor,
    action: str,
    *,
    before: dict[str, object] | None = None,
    after: dict[str, object] | None = None,
) -> None:
    audit.record(
        actor=actor,
        action=action,
        subject=f"user {actor.user.username}",
        before=before,
        after=after,
    )
