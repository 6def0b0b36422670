"""What happened to an endpoint, in the reader's own words, with an icon and a tone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.templatetags.console_phrases import phrase
from deployments.documents.incident_words import ROLLOUTS, SPLITS
from deployments.models import EndpointMode
from deployments.selectors.causes.occurrences import Occurrence

TONES = {
    "split.rollback": "warn",
    "split.automatic": "warn",
    "rollout.promoted": "ok",
    "rollout.aborted": "warn",
    "rollout.rolled_back": "bad",
    "incident.began": "bad",
    "incident.ended": "ok",
}
ICONS = {
    "split": "branch",
    "rollout": "rollouts",
    "release": "check",
    "deploy": "upload",
    "incident": "incidents",
}
OTHERS = {
    "release.approved": gettext_lazy("v%(version)s released"),
    "deploy.ready": gettext_lazy("v%(version)s ready on %(node)s"),
    "incident.began": gettext_lazy("%(severity)s: %(title)s"),
    "incident.ended": gettext_lazy("Callers are well again: %(title)s"),
}


@dataclass(frozen=True, slots=True)
class Said:
    """An occurrence as a chart's marker and a list's line."""

    at: datetime
    title: str
    icon: str
    tone: str
    url: str
    version: int


def said(one: Occurrence) -> Said:
    """The occurrence in words."""
    room, _dot, kind = one.kind.partition(".")
    icon = "rollback" if one.kind == "split.rollback" else ICONS.get(room, "info")
    tone = _mode_tone(one) or TONES.get(one.kind, "info" if room == "rollout" else "neutral")
    return Said(one.at, _title(one, room, kind), icon, tone, one.url, one.version)


def _title(one: Occurrence, room: str, kind: str) -> str:
    if room == "split":
        return f"{SPLITS.get(kind, kind)}: {_got(one)}"
    if room == "rollout":
        return str(ROLLOUTS.get(kind, one.kind)) % {"version": one.version}
    words = OTHERS.get(one.kind)
    if words is None:
        return one.kind
    facts = {**one.data, "version": one.version, "title": phrase(one.data.get("title", ""))}
    return str(words) % facts


def _got(one: Occurrence) -> str:
    """What callers get since then."""
    shares = ", ".join(f"v{v} {points / 100:g} %" for v, points in one.data["shares"].items())
    if one.data["probe"]:
        return _("%(share)s %% of the requests try %(versions)s") % {
            "share": f"{one.data['probe'] / 100:g}",
            "versions": ", ".join(f"v{version}" for version in one.data["shares"]),
        }
    mode = one.data["mode"]
    return shares if mode == EndpointMode.NORMAL else str(EndpointMode(mode).label)


def _mode_tone(one: Occurrence) -> str:
    if one.data.get("probe"):
        return "info"
    return {"fallback": "warn", "open": "bad"}.get(one.data.get("mode", ""), "")
