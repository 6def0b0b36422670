"""Where alerts are sent to: made, changed, tried and removed by who operates the installation."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from console.actors import Actor, require
from console.errors import Conflict, FieldError, Invalid, NotFound, Stale
from console.services import audit, notices
from deployments.models import AlertChannel, ChannelKind
from deployments.rules.alerts.channel_options import checked
from deployments.services.alerts.secrets import opened, sealed


def create_channel(
    *,
    name: str,
    kind: str,
    address: str = "",
    secret: str = "",
    options: Mapping[str, Any] | None = None,
    language: str = "",
    actor: Actor,
) -> tuple[AlertChannel, str]:
    """A new channel and, for a webhook, the secret that it is signed with: shown this once.

    Raises Invalid (`unknown_kind`, `invalid_channel`, `invalid_address`), Conflict (`name_taken`).
    """
    require(actor, "alert_channel.manage")
    if kind not in ChannelKind.values:
        raise Invalid(
            f"“{kind}” is not a kind of channel.",
            code="unknown_kind",
            hint=f"Kinds are {', '.join(ChannelKind.values)}.",
            errors=(FieldError("/kind", "Not known."),),
        )
    terms = checked(kind, address, secret, options or {})
    made = new_secret() if kind == ChannelKind.WEBHOOK else ""
    channel = AlertChannel(
        name=name,
        kind=kind,
        address=sealed(terms.address),
        shown=terms.shown,
        secret=sealed(made or terms.secret),
        options=terms.options,
        language=_language(language),
        changed_by=actor.user,
    )
    try:
        with transaction.atomic():
            channel.save(force_insert=True)
            _record(channel, "alert_channel.create", actor, after=facts(channel))
    except IntegrityError as error:
        raise Conflict(
            f"There is a channel called {name} already.",
            code="name_taken",
            hint="Choose another name, or change that one.",
            errors=(FieldError("/name", "Taken."),),
        ) from error
    return channel, made


def change_channel(
    *,
    name: str,
    actor: Actor,
    address: str = "",
    secret: str = "",
    options: Mapping[str, Any] | None = None,
    language: str | None = None,
    enabled: bool | None = None,
    revision: int | None = None,
    reason: str = "",
) -> AlertChannel:
    """Change what is given; an address or a key left out stays as it is. Clears its failures.

    Raises Stale when somebody changed it since `revision`, Invalid, NotFound.
    """
    require(actor, "alert_channel.manage")
    with transaction.atomic():
        channel = _locked(name)
        if revision is not None and revision != channel.revision:
            raise Stale(
                f"Somebody has changed {name} meanwhile.",
                hint="Look at it again, and change what is still to be changed.",
            )
        before = facts(channel)
        if address.strip() or secret.strip() or options is not None:
            _give_terms(channel, address, secret, options)
        if language is not None:
            channel.language = _language(language)
        if enabled is not None:
            channel.enabled = enabled
        channel.failures, channel.last_error = 0, ""
        channel.changed_by = actor.user
        changed = {**facts(channel), "new_key": bool(secret.strip())}
        if changed != {**before, "new_key": False}:
            channel.revision += 1
            _record(
                channel, "alert_channel.change", actor, before=before, after=changed, reason=reason
            )
        channel.save()
        notices.end(key=failing_key(channel))
    return channel


def rotate_secret(*, name: str, actor: Actor) -> tuple[AlertChannel, str]:
    """A new secret for a webhook, shown this once; the old one signs nothing any more."""
    require(actor, "alert_channel.manage")
    with transaction.atomic():
        channel = _locked(name)
        if channel.kind != ChannelKind.WEBHOOK:
            raise Invalid(
                f"{name} is no webhook: its key comes from where it sends to.",
                code="no_secret",
                hint="Change the channel, and give the key that you got there.",
            )
        made = new_secret()
        channel.secret = sealed(made)
        channel.revision += 1
        channel.changed_by = actor.user
        channel.save(update_fields=["secret", "revision", "changed_by", "changed_at"])
        _record(channel, "alert_channel.rotate", actor)
    return channel, made


def remove_channel(*, name: str, actor: Actor, reason: str = "") -> None:
    """Send nothing there any more; what was sent stays in the log.

    Raises Conflict (`channel_in_use`) while an escalation names it; routes just lose it.
    """
    require(actor, "alert_channel.manage")
    with transaction.atomic():
        channel = _locked(name)
        _record(channel, "alert_channel.remove", actor, before=facts(channel), reason=reason)
        notices.end(key=failing_key(channel))
        try:
            channel.delete()
        except ProtectedError as error:
            raise Conflict(
                f"An escalation tells {name}.",
                code="channel_in_use",
                hint="Take it out of the escalation first.",
            ) from error


def find_channel(name: str) -> AlertChannel:
    """The channel of this name; raises NotFound."""
    channel = AlertChannel.objects.filter(name=name).first()
    if channel is None:
        raise _missing(name)
    return channel


def failing_key(channel: AlertChannel) -> str:
    """What the notices of a channel that takes nothing are known by."""
    return f"alert_channel:{channel.pk}"


def new_secret() -> str:
    """A secret in the form of the Standard Webhooks specification."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def facts(channel: AlertChannel) -> dict[str, Any]:
    """A channel in the audit trail: nothing that would let somebody send."""
    return {
        "kind": channel.kind,
        "address": channel.shown,
        "options": channel.options,
        "language": channel.language,
        "enabled": channel.enabled,
    }


def _give_terms(
    channel: AlertChannel, address: str, secret: str, options: Mapping[str, Any] | None
) -> None:
    if channel.kind == ChannelKind.WEBHOOK and secret.strip():
        raise Invalid(
            "The secret of a webhook is made here.",
            code="invalid_channel",
            hint="Ask for a new one, and give it to the receiver.",
            errors=(FieldError("/secret", "Ask for a new one."),),
        )
    terms = checked(
        channel.kind,
        address.strip() or opened(channel.address, of=channel.name),
        secret.strip() or opened(channel.secret, of=channel.name),
        channel.options if options is None else options,
    )
    channel.address, channel.shown = sealed(terms.address), terms.shown
    if channel.kind != ChannelKind.WEBHOOK:
        channel.secret = sealed(terms.secret)
    channel.options = terms.options


def _language(wanted: str) -> str:
    if wanted and wanted not in dict(settings.LANGUAGES):
        raise Invalid(
            f"“{wanted}” is not a language of this console.",
            code="unknown_language",
            hint=f"Use one of {', '.join(dict(settings.LANGUAGES))}.",
            errors=(FieldError("/language", "Not known."),),
        )
    return wanted


def _locked(name: str) -> AlertChannel:
    channel = AlertChannel.objects.select_for_update().filter(name=name).first()
    if channel is None:
        raise _missing(name)
    return channel


def _missing(name: str) -> NotFound:
    return NotFound(f"There is no channel called {name}.", hint="See Settings → Alert channels.")


def _record(
    channel: AlertChannel,
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
        subject=f"alert channel {channel.name}",
        subject_url=f"/settings/alert-channels/{channel.name}/",
        before=before,
        after=after,
        reason=reason,
    )
