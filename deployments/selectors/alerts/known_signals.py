"""Which signals there are: those of the product, and every series that was ever measured."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from console.errors import FieldError, Invalid
from console.models import User
from deployments.models import MeasuredSeries
from deployments.rules.alerts.catalogue import SIGNALS
from deployments.rules.alerts.defaults import BY_NAME
from deployments.rules.alerts.documents import RuleDocument, parse_rule
from deployments.rules.fleet.catalogue import SERIES
from deployments.rules.telemetry.measuring import MEASURED
from deployments.selectors.alerts.rules import of_what_is_seen

OURS: Final = frozenset(
    {
        *SIGNALS,
        *SERIES,
        *MEASURED,
        *(one.signal for row in BY_NAME.values() for one in parse_rule(row.document).conditions),
    }
)
"""What the product measures itself, whether or not it has yet."""


def refuse_unknown(rule: RuleDocument, *, user: User, known: Container[str] = ()) -> None:
    """Raise Invalid with a pointer for each signal that nothing ever measured (a query or none).

    A name that is mistyped would never fire, and nobody would know. `known` are taken as they are.
    """
    asked = {one.signal for one in rule.conditions if one.signal not in OURS}
    asked = {name for name in asked if name not in known}
    if not asked:
        return
    rows = MeasuredSeries.objects.filter(of_what_is_seen(user), name__in=asked)
    missing = asked - set(rows.values_list("name", flat=True))
    if missing:
        raise Invalid(
            "The alert rule asks for a signal that there is not.",
            code="invalid_alert_rule",
            hint="Choose one of the list of signals, or send the series first.",
            errors=tuple(
                FieldError(
                    f"/conditions/{index}/signal",
                    "There is no such signal, and no series of this name was ever measured.",
                )
                for index, one in enumerate(rule.conditions)
                if one.signal in missing
            ),
        )
