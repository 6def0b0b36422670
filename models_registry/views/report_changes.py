"""What changed between two versions' validation reports, in the reader's language."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext

from console.templatetags import console_formats as text
from models_registry.models import ModelVersion
from models_registry.rules.report_diff import FigureChange, diff
from models_registry.views.version_words import figure, flop_text

_MANY_TIMES = 10
_ORDER = ("worse", "better", "neutral")


def report_changes(before: ModelVersion, after: ModelVersion) -> dict[str, Any] | None:
    """Checks with another verdict, all figures that differ; None where neither has a report."""
    if not before.report and not after.report:
        return None
    found = diff(before.report or {}, after.report or {})
    return {
        "before": found.before,
        "after": found.after,
        "checks": sorted(
            (check for check in found.checks if check.effect != "same"),
            key=lambda check: _ORDER.index(check.effect),
        ),
        "same": sum(check.effect == "same" for check in found.checks),
        "figures": [_figure(one) for one in found.figures if one.effect in ("better", "worse")],
        "others": [_figure(one) for one in found.figures if one.effect == "neutral"],
    }


def _figure(one: FigureChange) -> dict[str, Any]:
    template = gettext(one.template)
    return {
        "title": template % {"name": one.name} if one.name else template,
        "before_text": _shown(one, one.before),
        "after_text": _shown(one, one.after),
        "change": _change(one.before, one.after),
        "effect": one.effect,
    }


def _shown(one: FigureChange, value: object) -> str:
    if value is None:
        return text.NOTHING
    if one.unit == "FLOP":
        return flop_text(value)
    if isinstance(value, int) and not one.unit:
        return text.whole_number(value)
    return figure(value, one.unit)


def _change(before: object, after: object) -> str:
    """+20 %, −5 %, ×12, ÷3; nothing where one is missing or zero."""
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return ""
    if before <= 0 or after <= 0:
        return ""
    ratio = after / before
    if ratio >= _MANY_TIMES:
        return f"×{text.significant(ratio)}"
    if ratio <= 1 / _MANY_TIMES:
        return f"÷{text.significant(1 / ratio)}"
    share = 100 * (ratio - 1)
    sign = "+" if share >= 0 else "−"
    return f"{sign}{text.significant(abs(share))}{text.NBSP}%"
