"""What people decide about routes, escalations and schedules, as plain data, and what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, time
from zoneinfo import available_timezones

from console.errors import FieldError, Invalid

SEVERITIES = ("P1", "P2", "P3")
MOST_LAYERS, MOST_TURNS, MOST_STEPS, MOST_REPEATS = 8, 40, 12, 9
LONGEST_TURN_DAYS, LONGEST_WAIT_MINUTES = 92, 24 * 60
EARLIEST, LATEST = date(1970, 1, 1), date(2199, 12, 31)
"""Days that are still days in every time zone."""
TARGETS = ("on_call", "operators", "admins", "schedule", "person", "channel")


@dataclass(frozen=True, slots=True)
class RouteTerms:
    """A route by names; what is empty takes everything."""

    position: int = 50
    enabled: bool = True
    severities: tuple[str, ...] = ()
    environment: str = ""
    model: str = ""
    team: str = ""
    rule_name: str = ""
    label: str = ""
    channels: tuple[str, ...] = ()
    people: str = "inbox"
    schedule: str = ""
    policy: str = ""
    goes_on: bool = False


@dataclass(frozen=True, slots=True)
class StepTerms:
    """Tell `target` after so many minutes; `name` says which schedule, person or channel."""

    after_minutes: int
    target: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class LayerTerms:
    """A rotation by user names; times are local to the schedule."""

    people: tuple[str, ...]
    starts_on: date
    handover: time = time(9)
    days_each: int = 7
    from_time: time | None = None
    until_time: time | None = None
    weekdays: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ScheduleTerms:
    """A schedule; `covers` is everything, team (with `team`) or named."""

    title: str = ""
    time_zone: str = "UTC"
    covers: str = "named"
    team: str = ""
    layers: tuple[LayerTerms, ...] = ()


def check_route(terms: RouteTerms) -> None:
    """Raise Invalid with what contradicts itself in a route."""
    if unknown := [one for one in terms.severities if one not in SEVERITIES]:
        raise _wrong("/severities", f"{unknown[0]} is none of {', '.join(SEVERITIES)}.")
    if terms.people == "nobody" and not terms.channels:
        raise _wrong("/channels", "It tells nobody: name a channel, or the inbox.")
    if terms.people != "call" and (terms.schedule or terms.policy):
        raise _wrong(
            "/people", "A schedule and an escalation need people who are called: choose “call”."
        )


def check_steps(steps: Sequence[StepTerms], repeats: int) -> None:
    """Raise Invalid with what is wrong in an escalation."""
    if not 0 < len(steps) <= MOST_STEPS:
        raise _wrong("/steps", f"One to {MOST_STEPS} steps.")
    if not 0 <= repeats <= MOST_REPEATS:
        raise _wrong("/repeats", f"At most {MOST_REPEATS} times.")
    for number, step in enumerate(steps):
        if step.target not in TARGETS:
            raise _wrong(f"/steps/{number}/target", f"One of {', '.join(TARGETS)}.")
        if not 1 <= step.after_minutes <= LONGEST_WAIT_MINUTES:
            raise _wrong(f"/steps/{number}/after_minutes", f"1 to {LONGEST_WAIT_MINUTES} minutes.")
        if (step.target in ("schedule", "person", "channel")) != bool(step.name):
            raise _wrong(f"/steps/{number}/name", "A schedule, person or channel has a name.")


def check_schedule(terms: ScheduleTerms) -> None:
    """Raise Invalid with what is wrong in a schedule."""
    if terms.time_zone not in available_timezones():
        raise _wrong("/time_zone", "The name of a time zone, as in Europe/Berlin.")
    if terms.covers not in ("everything", "team", "named"):
        raise _wrong("/covers", "One of everything, team, named.")
    if (terms.covers == "team") != bool(terms.team):
        raise _wrong("/team", "A schedule of a team names it, and no other does.")
    if not 0 < len(terms.layers) <= MOST_LAYERS:
        raise _wrong("/layers", f"One to {MOST_LAYERS} layers.")
    for number, layer in enumerate(terms.layers):
        _check_layer(layer, f"/layers/{number}")


def _check_layer(layer: LayerTerms, at: str) -> None:
    if not 0 < len(layer.people) <= MOST_TURNS:
        raise _wrong(f"{at}/people", f"One to {MOST_TURNS} people.")
    if not EARLIEST <= layer.starts_on <= LATEST:
        raise _wrong(f"{at}/starts_on", f"A day from {EARLIEST.year} to {LATEST.year}.")
    if not 1 <= layer.days_each <= LONGEST_TURN_DAYS:
        raise _wrong(f"{at}/days_each", f"1 to {LONGEST_TURN_DAYS} days.")
    if (layer.from_time is None) != (layer.until_time is None):
        raise _wrong(f"{at}/until_time", "Both times of the day, or none.")
    if layer.from_time is not None and layer.from_time == layer.until_time:
        raise _wrong(f"{at}/until_time", "The two times are the same.")
    if any(not 0 <= day <= 6 for day in layer.weekdays):
        raise _wrong(f"{at}/weekdays", "Days are 0 (Monday) to 6.")


def _wrong(pointer: str, detail: str) -> Invalid:
    return Invalid(
        detail,
        code="invalid_on_call",
        hint="See docs/on-call.md.",
        errors=(FieldError(pointer, detail),),
    )
