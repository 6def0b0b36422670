"""Where the audit trail is forwarded to: made, changed, tried and removed by a platform admin."""

from __future__ import annotations

import base64
import secrets
from hashlib import sha256

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone

from console.actors import Actor, require
from console.errors import Conflict, CovenantError, FieldError, Invalid, NotFound
from console.models import AuditHead, AuditSink, SinkKind
from console.rules.outgoing import SYSLOG_SCHEMES, WEBHOOK_SCHEMES, Target, parse_target
from console.services import audit, notices
from console.services.audit_delivery import behind_key, send_test


def create_sink(
    *, name: str, kind: str, address: str, from_start: bool = False, actor: Actor
) -> tuple[AuditSink, str]:
    """A new sink and, for a webhook, its secret in clear text: shown this once.

    It gets what is written from now on, or all that is kept when `from_start`. Raises Invalid
    (`invalid_address`, `unknown_kind`), Conflict (`name_taken`).
    """
    require(actor, "audit.manage")
    target_of(kind, address)
    secret = _new_secret() if kind == SinkKind.WEBHOOK else ""
    head = AuditHead.objects.filter(id=1).first() or AuditHead()
    try:
        with transaction.atomic():
            sink = AuditSink.objects.create(
                name=name,
                kind=kind,
                address=address.strip(),
                secret=_sealed(secret),
                sent_sequence=head.kept_after if from_start else head.sequence,
                sent_at=timezone.now(),
            )
            _record(sink, "audit_sink.create", actor, after=_facts(sink))
    except IntegrityError as error:
        raise Conflict(
            f"There is a sink called {name} already.",
            code="name_taken",
            hint="Choose another name, or change that one.",
            errors=(FieldError("/name", "Taken."),),
        ) from error
    return sink, secret


def change_sink(
    *, name: str, address: str = "", enabled: bool | None = None, reason: str = "", actor: Actor
) -> AuditSink:
    """Change where a sink sends to, or stop and start it; what it has got so far stays."""
    require(actor, "audit.manage")
    with transaction.atomic():
        sink = _locked(name)
        before = _facts(sink)
        if address:
            target_of(sink.kind, address)
            sink.address = address.strip()
        if enabled is not None:
            sink.enabled = enabled
        sink.failures, sink.last_error, sink.not_before = 0, "", None
        sink.save()
        if _facts(sink) != before:
            _record(
                sink, "audit_sink.change", actor, before=before, after=_facts(sink), reason=reason
            )
        if not sink.enabled:
            notices.end(key=behind_key(sink))
    return sink


def rotate_secret(*, name: str, actor: Actor) -> tuple[AuditSink, str]:
    """A new secret for a webhook, shown this once; the old one signs nothing any more."""
    require(actor, "audit.manage")
    with transaction.atomic():
        sink = _locked(name)
        if sink.kind != SinkKind.WEBHOOK:
            raise Invalid(
                f"{name} is a syslog server: it has no secret.",
                code="no_secret",
                hint="Only webhooks are signed by a secret.",
            )
        secret = _new_secret()
        sink.secret = _sealed(secret)
        sink.save(update_fields=["secret"])
        _record(sink, "audit_sink.rotate", actor)
    return sink, secret


def remove_sink(*, name: str, reason: str = "", actor: Actor) -> None:
    """Send nothing there any more, and forget how far it had come."""
    require(actor, "audit.manage")
    with transaction.atomic():
        sink = _locked(name)
        _record(sink, "audit_sink.remove", actor, before=_facts(sink), reason=reason)
        notices.end(key=behind_key(sink))
        sink.delete()


def try_sink(*, name: str, actor: Actor) -> None:
    """Send a message that says that it is a test, now; raises Unavailable with the reason."""
    require(actor, "audit.manage")
    sink = find_sink(name)
    outcome = "sent"
    try:
        send_test(
            sink,
            target_of(sink.kind, sink.address),
            secret=open_secret(sink),
            now=timezone.now(),
        )
    except CovenantError as error:
        outcome = error.message
        raise
    finally:
        with transaction.atomic():
            _record(sink, "audit_sink.test", actor, after={"outcome": outcome})


def find_sink(name: str) -> AuditSink:
    """The sink of this name; raises NotFound."""
    sink = AuditSink.objects.filter(name=name).first()
    if sink is None:
        raise _missing(name)
    return sink


def target_of(kind: str, address: str) -> Target:
    """Where a sink sends to; raises Invalid (`unknown_kind`, `invalid_address`)."""
    if kind not in SinkKind.values:
        raise Invalid(
            f"“{kind}” is not a kind of sink.",
            code="unknown_kind",
            hint=f"Kinds are {', '.join(SinkKind.values)}.",
            errors=(FieldError("/kind", "Not known."),),
        )
    return parse_target(address, SYSLOG_SCHEMES if kind == SinkKind.SYSLOG else WEBHOOK_SCHEMES)


def open_secret(sink: AuditSink) -> str:
    """A webhook's secret in clear text, for signing; raises Invalid when it cannot be read."""
    if not sink.secret:
        return ""
    try:
        return _box().decrypt(sink.secret.encode()).decode()
    except InvalidToken as error:
        raise Invalid(
            f"The secret of {sink.name} cannot be read: COVENANT_SECRET_KEY is another one now.",
            code="secret_unreadable",
            hint="Make a new secret for it under Audit → Forwarding.",
        ) from error


def _new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def _sealed(secret: str) -> str:
    """Who reads the database alone shall not be able to sign as we do."""
    return _box().encrypt(secret.encode()).decode() if secret else ""


def _box() -> Fernet:
    key = sha256(b"covenant audit sinks\0" + settings.SECRET_KEY.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(key))


def _locked(name: str) -> AuditSink:
    sink = AuditSink.objects.select_for_update().filter(name=name).first()
    if sink is None:
        raise _missing(name)
    return sink


def _missing(name: str) -> NotFound:
    return NotFound(f"There is no sink called {name}.", hint="See Audit → Forwarding.")


def _facts(sink: AuditSink) -> dict[str, object]:
    return {"kind": sink.kind, "address": sink.address, "enabled": sink.enabled}


def _record(
    sink: AuditSink,
    action: str,
    actor: Actor,
    *,
    before: object = None,
    after: object = None,
    reason: str = "",
) -> None:
    audit.record(
        actor=actor,
        action=action,
        subject=f"audit sink {sink.name}",
        subject_url=reverse("console:audit-sinks"),
        before=before,
        after=after,
        reason=reason,
    )
