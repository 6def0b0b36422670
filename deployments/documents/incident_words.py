"""Lines of an incident's timeline in the reader's own words."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.templatetags.console_phrases import phrase
from deployments.models import EndpointMode, TrafficSplit
from deployments.rules.incidents.severity import level_of_mode
from deployments.selectors.incidents.pages import Line

# Kind of an event → words, icon, tone.
EVENTS: Final = {
    "opened": (gettext_lazy("The incident began"), "incidents", "bad"),
    "joined": (gettext_lazy("It goes on"), "incidents", "bad"),
    "ended": (gettext_lazy("Callers are well again"), "check", "ok"),
    "acknowledged": (gettext_lazy("Somebody sees to it"), "person", "info"),
    "resolved": (gettext_lazy("Resolved"), "check", "ok"),
    "comment": (gettext_lazy("Comment"), "pen", "neutral"),
    "alert": (gettext_lazy("An urgent alert fires"), "alerts", "bad"),
    "alert_over": (gettext_lazy("The alert is over"), "check", "ok"),
    "escalated": (gettext_lazy("The next were called"), "arrow-up", "warn"),
    "hand_over": (gettext_lazy("Left to people"), "person", "info"),
    "stop": (gettext_lazy("It stays as it is: a person has to decide"), "pause", "bad"),
    "asked_in_vain": (gettext_lazy("Asked directly, in vain"), "close", "warn"),
    "redeploy": (gettext_lazy("The last good version is deployed again"), "upload", "info"),
    "redeploy_ready": (gettext_lazy("The last good version is ready again"), "check", "ok"),
    "redeploy_left": (gettext_lazy("The re-deploy is nobody’s wish any more"), "close", "neutral"),
    "redeploy_refused": (gettext_lazy("It may not be deployed again"), "close", "bad"),
    "job.deploy": (gettext_lazy("A deploy was asked for"), "upload", "neutral"),
    "job.unload": (gettext_lazy("A version is taken off"), "arrow-down", "neutral"),
    "job.deploy.ended": (gettext_lazy("A deploy has ended"), "check", "neutral"),
    "job.unload.ended": (gettext_lazy("A version was taken off"), "check", "neutral"),
}
SPLITS: Final = {
    "initial": gettext_lazy("First version takes traffic"),
    "manual": gettext_lazy("Traffic moved by hand"),
    "rollback": gettext_lazy("Rolled back by hand"),
    "mode": gettext_lazy("Mode changed by hand"),
    "unload": gettext_lazy("Version taken off"),
    "rollout": gettext_lazy("Step of a rollout"),
    "automatic": gettext_lazy("Moved by itself"),
    "experiment": gettext_lazy("Moved by an experiment"),
}
ROLLOUTS: Final = {
    "started": gettext_lazy("Rollout of v%(version)s started"),
    "paused": gettext_lazy("Rollout of v%(version)s paused"),
    "resumed": gettext_lazy("Rollout of v%(version)s resumed"),
    "promoted": gettext_lazy("v%(version)s promoted"),
    "aborted": gettext_lazy("Rollout of v%(version)s ended"),
    "rolled_back": gettext_lazy("Rollout of v%(version)s rolled back"),
}


def line_words(line: Line) -> dict[str, Any]:
    """A line as the timeline draws it."""
    title, icon, tone = _title(line)
    if line.state in ("failed", "errored"):
        tone = "bad"
    return {
        "at": line.at,
        "title": title,
        "icon": icon,
        "tone": tone,
        "detail": "" if line.split is not None and line.split.probe else phrase(line.message),
        "actor": line.actor,
        "url": line.url,
        "level": line.level if line.split is not None else None,
        "took_ms": line.took_ms,
    }


def _title(line: Line) -> tuple[str, str, str]:
    if line.split is not None:
        return _of_split(line.split)
    if line.kind == "called":
        named = ", ".join(line.people)
        words = _("Told those on call: %(people)s") % {"people": named} if named else ""
        return words or _("Nobody else is on call"), "bell", "warn"
    if line.kind == "escalated" and line.people:
        told = _("Nobody acknowledged; told next: %(people)s") % {"people": ", ".join(line.people)}
        return told, "arrow-up", "warn"
    if line.kind.startswith("rollout."):
        kind = line.kind.removeprefix("rollout.")
        words = str(ROLLOUTS.get(kind, _("Rollout of v%(version)s")))
        return words % {"version": line.version}, "rollouts", "info"
    said, icon, tone = EVENTS.get(line.kind, (line.kind, "info", "neutral"))
    return str(said), icon, tone


def _of_split(split: TrafficSplit) -> tuple[str, str, str]:
    """What callers get by this revision, and who is behind it."""
    weights = ", ".join(f"v{v} {points / 100:g} %" for v, points in split.weights.items() if points)
    level = level_of_mode(split.mode)
    if split.probe:
        tried = ", ".join(f"v{v}" for v, points in split.weights.items() if points)
        what = _("%(share)s %% of the requests try %(versions)s") % {
            "share": f"{split.probe / 100:g}",
            "versions": tried,
        }
    elif split.mode == EndpointMode.NORMAL:
        what = weights
    else:
        what = str(EndpointMode(split.mode).label)
    words = f"{SPLITS.get(split.cause, split.cause)}: {what}"
    return words, "rollback" if level or split.cause == "rollback" else "branch", _tone(split)


def _tone(split: TrafficSplit) -> str:
    if split.probe:
        return "info"
    return {"fallback": "warn", "open": "bad"}.get(split.mode, "neutral")
