"""A message about alerts in the words of whoever reads it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.templatetags.console_phrases import objective, phrase
from deployments.models import AlertDelivery
from deployments.rules.alerts.letters import LONGEST_TITLE, TEST, Letter, shortened

# Why it is said → how its line begins.
BEGINNINGS: Final = {
    "firing": gettext_lazy("%(severity)s %(subject)s: %(title)s"),
    "reminder": gettext_lazy("Still %(severity)s %(subject)s: %(title)s"),
    "escalation": gettext_lazy("Nobody sees to it – %(severity)s %(subject)s: %(title)s"),
    "resolved": gettext_lazy("Over – %(severity)s %(subject)s: %(title)s"),
}
TEXTS: Final = {
    "firing": gettext_lazy("Acknowledge it, so that others know that somebody sees to it."),
    "reminder": gettext_lazy("It goes on. Acknowledge it, or silence it if it is no news."),
    "escalation": gettext_lazy(
        "Nobody has acknowledged it yet. Do so, so that others know that somebody sees to it."
    ),
    "resolved": gettext_lazy("All is well again; nothing is to be done at once."),
}


def letter_of(delivery: AlertDelivery, *, language: str = "") -> Letter:
    """The message in one language; "" is the installation's own."""
    with translation.override(language or settings.LANGUAGE_CODE):
        if delivery.why == TEST:
            return _test(delivery)
        return _letter(delivery)


def title_words(item: dict[str, Any]) -> str:
    """The title of an alert or an incident in the reader's language.

    Both are English as it was stored: an alert's may have places that its data fills.
    """
    title = phrase(item["title"])
    try:
        return title % item["data"] if item["data"] else title
    except (KeyError, TypeError, ValueError):
        return title


def _letter(delivery: AlertDelivery) -> Letter:
    message = delivery.message
    first, *others = message["items"]
    count = message["count"]
    headline = BEGINNINGS[delivery.why] % {
        "severity": first["severity"],
        "subject": first["subject"],
        "title": title_words(first),
    }
    # One line: mail takes no other subject, and people may have written several.
    headline = shortened(" ".join(headline.split()), LONGEST_TITLE)
    if count > 1:
        headline += _(" (and %(n)s more)") % {"n": count - 1}
    return Letter(
        id=str(delivery.pk),
        thread=delivery.thread,
        why=delivery.why,
        severity=delivery.severity,
        headline=headline,
        text=str(TEXTS[delivery.why]),
        subject=first["subject"],
        url=_address(first["path"] if count == 1 else "/alerts/"),
        link_words=_("Open it in Covenant"),
        at=_moment(message["at"]) or datetime.now(UTC),
        facts=tuple(_facts(first)),
        others=tuple(_line(one) for one in others),
        data=_data(message),
    )


def _test(delivery: AlertDelivery) -> Letter:
    return Letter(
        id=str(delivery.pk),
        thread=delivery.thread,
        why=TEST,
        severity="",
        headline=_("Covenant: a test"),
        text=_("This is a test of the channel %(name)s. Nothing is wrong.")
        % {"name": delivery.receiver},
        subject="covenant",
        url=_address("/settings/alert-channels/"),
        link_words=_("Open it in Covenant"),
        at=_moment(delivery.message["at"]) or datetime.now(UTC),
        data={"alerts": [], "to": delivery.message.get("to", "")},
    )


def _facts(item: dict[str, Any]) -> list[tuple[str, str]]:
    found = [(_("What"), item["subject"])]
    if item.get("version"):
        found.append((_("Version"), f"v{item['version']}"))
    if item.get("device"):
        found.append((_("Device"), item["device"]))
    if item.get("label"):
        found.append((_("Series"), objective(item["label"])))
    if item.get("value") is not None:
        found.append((_("Value"), _figure(item["value"], item["unit"])))
    if item.get("threshold") is not None:
        found.append((_("Limit"), _figure(item["threshold"], item["unit"])))
    found.append((_("Since"), _shown(item["started_at"])))
    if item.get("ended_at"):
        found.append((_("Until"), _shown(item["ended_at"])))
    if item.get("rule"):
        found.append((_("Rule"), item["rule"]))
    return found


def _line(item: dict[str, Any]) -> str:
    return f"{item['severity']} {item['subject']}: {title_words(item)}"


def _data(message: dict[str, Any]) -> dict[str, Any]:
    """What programs read: the fields of the gravest one, and all of them."""
    first = message["items"][0]
    return {
        **{key: first.get(key, "") for key in ("environment", "model", "node", "rule", "version")},
        "count": message["count"],
        "alerts": [
            {**{k: v for k, v in one.items() if k not in ("title", "data", "path")}}
            | {"title": title_words(one), "url": _address(one["path"])}
            for one in message["items"]
        ],
        "to": message.get("to", ""),
    }


def _figure(value: float, unit: str) -> str:
    return f"{value:.4g} {unit}".strip()


def _shown(moment: str) -> str:
    at = _moment(moment)
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else ""


def _moment(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _address(path: str) -> str:
    return f"{settings.CONFIG.base_url.rstrip('/')}{path}"
