"""Template tags and filters of the design system; a tag renders a partial of templates/components.

`{% load console_ui %}` — the context of every tag is described at the top of its partial.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django import template
from django.http import HttpRequest
from django.template.context import Context
from django.urls import reverse
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from console.models import Role, User
from console.rules.error_help import entries as error_entries
from console.templatetags import console_formats as text
from console.templatetags import console_phrases as phrases
from console.templatetags.console_drawings import Segment, segments, spark
from console.templatetags.console_icons import ICONS
from console.templatetags.console_states import look
from console.templatetags.console_strings import STRINGS

register = template.Library()

VERSION_COLOURS: Final = 8

# key, words, URL name, shown in the bottom bar of a phone
NAVIGATION: Final = (
    ("home", _("Home"), "home", True),
    ("models", _("Models"), "models_registry:model-list", True),
    ("endpoints", _("Endpoints"), "deployments:endpoint-list", True),
    ("rollouts", _("Rollouts"), "deployments:rollout-list", False),
    ("alerts", _("Alerts"), "deployments:alert-list", False),
    ("incidents", _("Incidents"), "deployments:incident-list", False),
    ("jobs", _("Jobs"), "console:job-list", True),
    ("nodes", _("Nodes"), "deployments:node-list", False),
    ("sla", _("SLA"), "deployments:sla-list", False),
    ("audit", _("Audit"), "console:audit-list", False),
    ("settings", _("Settings"), "console:settings", False),
)

register.filter("phrase", phrases.phrase)
register.filter("job_kind", phrases.job_kind)
register.filter("fault_kind", phrases.fault_kind)
register.filter("objective", phrases.objective)
register.filter("answer_status", phrases.answer_status)
register.filter("bytes", text.file_size)
register.filter("duration", text.span)
register.filter("millis", text.latency)
register.filter("percent", text.percentage)
register.filter("rate", text.per_second)
register.filter("count", text.whole_number)
register.filter("short_digest", text.short_digest)


@register.filter
def fraction(value: object, digits: int = 2) -> str:
    """A share of one as percent: 0.9995 → "99.95 %"."""
    number = text.as_float(value)
    return text.percentage(None if number is None else number * 100, digits)


@register.filter
def basis_points(value: object) -> str:
    """Weights are kept in basis points: 500 → "5 %"."""
    number = text.as_float(value)
    return text.percentage(None if number is None else number / 100)


@register.filter
def version_colour(number: object) -> str:
    """The CSS class of a version's one colour, derived from its number: 1 → "vc-1", 9 → "vc-1"."""
    value = text.as_float(number)
    return "vc-none" if value is None else f"vc-{(int(value) - 1) % VERSION_COLOURS + 1}"


@register.filter
def ago(when: datetime | None) -> SafeString | str:
    """A ``<time>`` that says how long ago, kept true by ages.js; the full time on hover."""
    if when is None:
        return text.NOTHING
    return format_html(
        '<time datetime="{}" data-age title="{}">{}</time>',
        text.machine_time(when),
        formats.date_format(timezone.localtime(when), "DATETIME_FORMAT"),
        text.age_words(when, timezone.now()),
    )


@register.filter
def moment(when: datetime | None) -> SafeString | str:
    """A ``<time>`` with date and time, shown in the reader's own time zone where scripts run."""
    if when is None:
        return text.NOTHING
    return format_html(
        '<time datetime="{}" data-moment>{}</time>',
        text.machine_time(when),
        formats.date_format(timezone.localtime(when), "SHORT_DATETIME_FORMAT"),
    )


@register.filter
def machine_time(when: datetime | None) -> str:
    """RFC 3339 UTC, for ``data-measured-at`` and the like; empty when there is none."""
    return "" if when is None else text.machine_time(when)


@register.simple_tag
def icon(name: str, css: str = "") -> SafeString:
    """An icon of the own set, hidden from assistive technology: words stand beside it."""
    return format_html(
        '<svg class="icon {}" viewBox="0 0 16 16" aria-hidden="true" focusable="false">{}</svg>',
        css,
        mark_safe(ICONS[name]),  # noqa: S308 - constants of this package
    )


@register.inclusion_tag("components/state.html")
def state(kind: str, value: str, label: str = "", bare: bool = False) -> dict[str, Any]:
    """State as shape + word + colour; `bare` leaves the frame out (in tables)."""
    shown = look(kind, str(value))
    return {
        "tone": shown.tone,
        "shape": f"state-{shown.shape}",
        "label": label or shown.label,
        "state": value,
        "bare": bare,
    }


@register.simple_tag
def help_url(code: object) -> str:
    """Where an error's code is explained, "" for one that no entry explains."""
    known = str(code or "")
    return reverse("console:error-help", args=[known]) if known in error_entries() else ""


@register.inclusion_tag("components/badge.html")
def badge(label: str, tone: str = "neutral", icon: str = "") -> dict[str, Any]:
    """A short word in a frame: a format, a risk class, an environment."""
    return {"label": label, "tone": tone, "icon": icon}


@register.inclusion_tag("components/digest.html")
def digest(value: str | None, length: int = 12) -> dict[str, Any]:
    """A digest, cut short, with a button that copies all of it."""
    full = str(value or "").rpartition(":")[2]
    return {"full": full, "short": full[:length]}


@register.inclusion_tag("components/person.html")
def person(who: Any, size: str = "", you: Any = None) -> dict[str, Any]:
    """A person's initials and name; `you` is the reader, who is marked as "you"."""
    if not who:
        return {"name": ""}
    name = str(who)
    words = name.replace(".", " ").replace("_", " ").split()
    initials = "".join(word[0] for word in words[:2]) or "?"
    is_you = you is not None and getattr(you, "pk", None) == getattr(who, "pk", object())
    return {"name": name, "initials": initials.upper(), "size": size, "is_you": is_you}


@register.inclusion_tag("components/version.html")
def version(number: object, label: str = "", url: str = "") -> dict[str, Any]:
    """A version's number with its colour."""
    return {"number": number, "colour": version_colour(number), "label": label, "url": url}


@register.inclusion_tag("components/sparkline.html")
def sparkline(
    values: Sequence[float | None], label: str = "", unit: str = "", colour: str = ""
) -> dict[str, Any]:
    """A small line of `values`, oldest first, from zero; None is a gap."""
    return {"spark": spark(values), "label": label, "unit": unit, "colour": colour}


@register.inclusion_tag("components/split_bar.html")
def split_bar(
    weights: Mapping[Any, float] | Iterable[tuple[Any, float]], legend: bool = True
) -> dict[str, Any]:
    """A stacked bar of {version number: percent} in the versions' colours."""
    parts: list[Segment] = segments(weights)
    for part in parts:
        part.colour = version_colour(part.number)
    return {"parts": parts, "legend": legend}


@register.inclusion_tag("components/meter.html")
def meter(
    value: float | None,
    maximum: float = 100,
    label: str = "",
    tone: str = "",
    warn_below: float | None = None,
    bad_below: float | None = None,
    shown: str = "",
) -> dict[str, Any]:
    """A quantity left (an error budget, free memory) as a bar; the tone follows the thresholds."""
    number = text.as_float(value)
    if not tone:
        tone = "accent"
        if number is not None and bad_below is not None and number < bad_below:
            tone = "bad"
        elif number is not None and warn_below is not None and number < warn_below:
            tone = "warn"
        elif warn_below is not None or bad_below is not None:
            tone = "ok"
    share = 0.0 if number is None else min(100.0, max(0.0, 100 * number / (maximum or 1)))
    return {
        "value": number,
        "maximum": maximum,
        "label": label,
        "tone": tone,
        "share": f"{share:.2f}",
        "shown": shown or text.percentage(number),
        "known": number is not None,
    }


@register.inclusion_tag("components/stat.html")
def stat(
    label: str,
    value: object,
    unit: str = "",
    at: datetime | None = None,
    note: str = "",
    tone: str = "",
    live: str = "",
) -> dict[str, Any]:
    """One live figure with its unit and age; greys out when `at` is more than 10 s ago."""
    stale = at is not None and (timezone.now() - at).total_seconds() > 10
    shown = text.NOTHING if value is None or value == "" else value
    return {
        "label": label,
        "value": shown,
        "unit": "" if shown == text.NOTHING else unit,
        "at": at,
        "note": note,
        "tone": tone,
        "live": live,
        "stale": stale,
    }


@register.inclusion_tag("components/chart.html")
def chart(
    name: str,
    url: str,
    title: str,
    unit: str,
    kind: str = "line",
    size: str = "md",
    live: int = 0,
    note: str = "",
) -> dict[str, Any]:
    """A time series chart from a JSON URL with a table view; `live` is the refresh in seconds."""
    return {
        "name": name,
        "url": url,
        "title": title,
        "unit": unit,
        "kind": kind,
        "size": size,
        "live": live,
        "note": note,
    }


@register.simple_tag(takes_context=True)
def navigation(context: Context) -> list[dict[str, Any]]:
    """The places of the left navigation; the one whose path is the longest prefix is current."""
    request: HttpRequest | None = context.get("request")
    path = request.path if request is not None else ""
    chosen = context.get("nav_section", "")
    places: list[dict[str, Any]] = [
        {"key": key, "label": label, "url": reverse(name), "in_bar": in_bar}
        for key, label, name, in_bar in NAVIGATION
    ]
    if not chosen:
        chosen = _place_of(path, places)
    for place in places:
        place["current"] = place["key"] == chosen
    return places


def _place_of(path: str, places: list[dict[str, Any]]) -> str:
    """Key of the place with the longest address that `path` starts with; Home only itself."""
    matching = [
        place
        for place in places
        if path == place["url"] or (place["key"] != "home" and path.startswith(place["url"]))
    ]
    return str(max(matching, key=lambda place: len(place["url"]))["key"]) if matching else ""


@register.filter
def role_names(user: User) -> list[str]:
    """The roles of a person in words."""
    return [str(Role(role).label) for role in user.roles]


@register.simple_tag
def script_strings() -> dict[str, str]:
    """The sentences that scripts show, translated; read by static/js/strings.js."""
    return {key: gettext(sentence) for key, sentence in STRINGS.items()}
