"""What each kind of channel takes, and what of it may be shown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from console.errors import FieldError, Invalid
from console.rules.outgoing import WEBHOOK_SCHEMES, parse_target

MOST_RECEIVERS = 20
LONGEST_ADDRESS, LONGEST_SECRET, LONGEST_FORM = 1000, 300, 2000
PAGERDUTY_KEY = 32
PAGERDUTY_EVENTS = "https://events.pagerduty.com/v2/enqueue"
SMS_FORM = '{"to": "{to}", "message": "{text}"}'
CONTENT_TYPES = ("application/json", "application/x-www-form-urlencoded")
SMS_OPTIONS: Final = frozenset({"to", "form", "content_type", "header"})
OWN_HEADERS: Final = frozenset(
    {"connection", "content-length", "content-type", "host", "transfer-encoding", "upgrade"}
)
"""Those that say how the message itself travels: a key in one of them breaks it."""
_MAIL = re.compile(r"[^@\s,;<>\"]{1,64}@[A-Za-z0-9.-]{1,190}\.[A-Za-z0-9-]{2,63}")
_NUMBER = re.compile(r"\+?[0-9][0-9 -]{3,20}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,60}")


@dataclass(frozen=True, slots=True)
class ChannelTerms:
    """What was given, checked and put in order; `shown` tells no secret."""

    address: str
    shown: str
    secret: str = ""
    options: dict[str, Any] = field(default_factory=dict)


def checked(kind: str, address: str, secret: str, options: Mapping[str, Any]) -> ChannelTerms:
    """What a channel of this kind is made of. Raises Invalid with a pointer to what is wrong."""
    address, secret = address.strip(), secret.strip()
    if len(address) > LONGEST_ADDRESS or len(secret) > LONGEST_SECRET:
        raise _wrong("/address", "The address or the key is too long.")
    if not secret.isprintable() or not secret.isascii():
        raise _wrong("/secret", "A key has letters, digits and marks alone.")
    if unknown := set(options) - (SMS_OPTIONS if kind == "sms" else set()):
        raise _wrong(f"/options/{min(unknown)}", f"A channel of this kind has no {min(unknown)}.")
    if kind == "email":
        return _mail(address)
    if kind == "pagerduty":
        return _pagerduty(address or PAGERDUTY_EVENTS, secret)
    parse_target(address, WEBHOOK_SCHEMES)
    if kind == "sms":
        return ChannelTerms(address, shown(kind, address), secret, _sms(options))
    return ChannelTerms(address, shown(kind, address), secret)


def shown(kind: str, address: str) -> str:
    """What may be seen of an address: of a chat room's, not the part that lets anybody write."""
    if kind == "email":
        return address[:200]
    parts = urlsplit(address)
    place = f"{parts.scheme}://{parts.netloc}"
    if kind in ("webhook", "pagerduty", "sms"):
        return f"{place}{parts.path}"[:200]
    return f"{place}/…{address[-4:]}"[:200]


def addresses(address: str) -> list[str]:
    """The mail addresses of a channel, each once, in the order given."""
    parts = (part.strip() for part in re.split(r"[,;\s]+", address))
    return list(dict.fromkeys(part for part in parts if part))


def _mail(address: str) -> ChannelTerms:
    found = addresses(address)
    if not found or len(found) > MOST_RECEIVERS:
        raise _wrong("/address", f"One to {MOST_RECEIVERS} mail addresses, with commas between.")
    for one in found:
        if not _MAIL.fullmatch(one):
            raise _wrong("/address", f"“{one[:80]}” is no mail address.")
    text = ", ".join(found)
    return ChannelTerms(text, shown("email", text))


def _pagerduty(address: str, secret: str) -> ChannelTerms:
    parse_target(address, WEBHOOK_SCHEMES)
    if len(secret) != PAGERDUTY_KEY or not secret.isalnum():
        raise _wrong(
            "/secret",
            f"The integration key has {PAGERDUTY_KEY} letters and digits (Events API v2).",
        )
    return ChannelTerms(address, shown("pagerduty", address), secret)


def _sms(options: Mapping[str, Any]) -> dict[str, Any]:
    numbers = options.get("to")
    if isinstance(numbers, str):
        numbers = [part.strip() for part in re.split(r"[,;\n]+", numbers) if part.strip()]
    if not isinstance(numbers, list) or not 0 < len(numbers) <= MOST_RECEIVERS:
        raise _wrong("/options/to", f"One to {MOST_RECEIVERS} telephone numbers.")
    for one in numbers:
        if not isinstance(one, str) or not _NUMBER.fullmatch(one):
            raise _wrong("/options/to", f"“{str(one)[:40]}” is no telephone number.")
    kind = options.get("content_type") or CONTENT_TYPES[0]
    if kind not in CONTENT_TYPES:
        raise _wrong("/options/content_type", f"One of {', '.join(CONTENT_TYPES)}.")
    header = options.get("header") or "Authorization"
    if (
        not isinstance(header, str)
        or not _HEADER.fullmatch(header)
        or header.lower() in OWN_HEADERS
    ):
        raise _wrong("/options/header", "The name of a header: letters, digits and hyphens.")
    form = options.get("form") or SMS_FORM
    if not isinstance(form, str) or len(form) > LONGEST_FORM:
        raise _wrong("/options/form", f"A text of at most {LONGEST_FORM} characters.")
    _check_form(form, str(kind))
    return {
        "to": [re.sub(r"[ -]", "", one) for one in numbers],
        "form": form,
        "content_type": kind,
        "header": header,
    }


def _check_form(form: str, kind: str) -> None:
    if "{to}" not in form or "{text}" not in form:
        raise _wrong("/options/form", "It has to have {to} and {text} in it.")
    if kind == CONTENT_TYPES[0]:
        try:
            json.loads(form.replace("{to}", "1").replace("{text}", "x"))
        except ValueError:
            raise _wrong("/options/form", "With {to} and {text} filled in it is no JSON.") from None


def _wrong(pointer: str, detail: str) -> Invalid:
    return Invalid(
        detail,
        code="invalid_channel",
        hint="See docs/on-call.md for what each kind takes.",
        errors=(FieldError(pointer, detail),),
    )
