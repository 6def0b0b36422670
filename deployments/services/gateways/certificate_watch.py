"""Certificates of listeners, read from their files when these change, and told in time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from console.actors import Actor
from console.errors import Unavailable
from console.models import Role, Severity, User
from console.services import audit, notices
from deployments.adapters.certificates import Pair, read_pair, stamp
from deployments.models import Gateway, GatewayListener
from deployments.rules.access.caller_directory import Certificate
from deployments.rules.gateways.certificates import WARN_DAYS, warning_due

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Read:
    """What was found in a pair of files when they had this stamp; `pair` is the last good one."""

    files: tuple[str, str]
    stamp: tuple[tuple[int, int, int], ...]
    pair: Pair | None
    settled: bool


_lock = threading.Lock()
_found: dict[int, _Read] = {}


def certificates_of(listeners: Iterable[GatewayListener]) -> dict[str, Certificate | None]:
    """The pair for each environment whose listener speaks TLS, read anew where files changed.

    None where no good pair was seen yet: the gateway keeps what it may have. A bad pair is told
    and changes nothing.
    """
    wanted: dict[str, Certificate | None] = {}
    for listener in listeners:
        if not listener.certificate_file:
            continue
        pair = _current(listener)
        name = listener.environment.name
        wanted[name] = Certificate(name, pair.chain, pair.private_key) if pair else None
    return wanted


def warn_of_certificates(now: datetime) -> int:
    """Tell those who run the gateways 30 and 7 days ahead, and when it has ended; once each."""
    told = 0
    ending = GatewayListener.objects.exclude(certificate_file="").filter(
        certificate_not_after__isnull=False
    )
    for listener in ending.select_related("gateway", "environment"):
        not_after = listener.certificate_not_after
        days = warning_due(not_after, now) if not_after else None
        with transaction.atomic():
            for other in (*WARN_DAYS, 0):
                if other != days:
                    notices.end(key=_expiry_key(listener, other))
            if days is not None and not_after is not None:
                told += _tell(
                    listener,
                    "certificate.expires",
                    _expiry_key(listener, days),
                    Severity.WARNING if days else Severity.CRITICAL,
                    {"days": days, "on": not_after.date().isoformat()},
                )
    return told


def _current(listener: GatewayListener) -> Pair | None:
    files = (listener.certificate_file, listener.key_file)
    now = stamp(*files)
    with _lock:
        known = _found.get(listener.pk)
    if known is not None and known.files != files:
        known = None
    if known is not None and known.settled and known.stamp == now:
        return known.pair
    try:
        pair = read_pair(*files)
    except Unavailable as error:
        # Two files are never replaced in one moment: a fault is believed when it stays.
        settled = known is not None and known.stamp == now
        found = _Read(files, now, known.pair if known else None, settled)
        if settled:
            log.warning("listener %s keeps its certificate: %s", listener, error.message)
            _note_fault(listener, error)
    else:
        found = _Read(files, now, pair, settled=True)
        _note_pair(listener, pair)
    with _lock:
        _found[listener.pk] = found
    return found.pair


@transaction.atomic
def _note_pair(listener: GatewayListener, pair: Pair) -> None:
    notices.end(key=_fault_key(listener))
    if listener.certificate_not_after == pair.not_after:
        return
    before = listener.certificate_not_after
    GatewayListener.objects.filter(pk=listener.pk).update(certificate_not_after=pair.not_after)
    audit.record(
        actor=Actor.system("gateway control"),
        action="gateway.certificate_read",
        subject=f"gateway {listener.gateway.name}",
        before={"not_after": before.isoformat() if before else None},
        after={
            "environment": listener.environment.name,
            "not_after": pair.not_after.isoformat(),
            "names": list(pair.names),
        },
    )


@transaction.atomic
def _note_fault(listener: GatewayListener, error: Unavailable) -> None:
    told = f"{listener.environment.name}: {error.message} {error.hint}"
    Gateway.objects.filter(pk=listener.gateway_id).update(
        last_refusal=told, last_refusal_at=timezone.now()
    )
    _tell(
        listener,
        "certificate.bad",
        _fault_key(listener),
        Severity.CRITICAL,
        {"detail": error.message},
    )


def _tell(
    listener: GatewayListener, kind: str, key: str, severity: str, data: dict[str, object]
) -> int:
    facts = {"gateway": listener.gateway.name, "environment": listener.environment.name}
    return notices.notify(
        people=User.objects.filter(roles__overlap=[Role.SRE, Role.PLATFORM_ADMIN]),
        kind=kind,
        key=key,
        subject=f"gateway {listener.gateway.name}",
        severity=severity,
        data={**facts, **data},
    )


def end_notices(listener: GatewayListener) -> None:
    """Nothing of what was told of a listener's certificate holds any more."""
    notices.end(key=_fault_key(listener))
    for days in (*WARN_DAYS, 0):
        notices.end(key=_expiry_key(listener, days))


def _fault_key(listener: GatewayListener) -> str:
    return f"certificate.bad:{listener.pk}"


def _expiry_key(listener: GatewayListener, days: int) -> str:
    return f"certificate.expires:{listener.pk}:{days}"
