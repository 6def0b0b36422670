"""Recording and alert rules for Prometheus from what contracts promise.

They ask for the metrics of `/metrics` (rules/statistics/exported.py) and judge as
`burn_rates` does: the same windows, factors and least number of bad requests. What Prometheus
cannot know is what the seats excluded afterwards; agreed maintenance it is told of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from deployments.rules.objectives import burn_rates
from deployments.rules.objectives.burn_rates import BurnPolicy
from deployments.rules.objectives.slo import Objective

REQUESTS = "covenant_endpoint_requests_total"
LATENCY = "covenant_endpoint_latency_seconds"
MAINTENANCE = "covenant_endpoint_maintenance"
ERROR_RATIO = "covenant:slo_errors:ratio_rate"
BAD_EVENTS = "covenant:slo_bad_events:increase"
TARGET = "covenant:slo_target:ratio"
INTERVAL = "30s"
BLIND_FOR = "15m"
"""How long answers may come without the bound that a latency objective needs."""


@dataclass(frozen=True, slots=True)
class PromisedEndpoint:
    """An endpoint with the objectives of the contract that holds; `revision` is the contract's."""

    environment: str
    model: str
    revision: int
    objectives: tuple[Objective, ...]


def rule_file(endpoints: Sequence[PromisedEndpoint], base_url: str) -> dict[str, Any]:
    """The content of a rule file: a group for each endpoint.

    `base_url` is the console's address, for links in annotations; "" leaves them out.
    """
    return {"groups": [_group(one, base_url.rstrip("/")) for one in endpoints]}


def good_and_valid(objective: Objective, selector: str, window: str) -> tuple[str, str]:
    """The counters of good and of valid requests as PromQL, each with `[window]` if there is one.

    `selector` holds the label matchers without braces.
    """
    span = f"[{window}]" if window else ""
    if objective.threshold_ms is None:
        good = f'{REQUESTS}{{{selector},meaning="good"}}{span}'
        valid = f'{REQUESTS}{{{selector},meaning=~"good|provider"}}{span}'
    else:
        good = f'{LATENCY}_bucket{{{selector},le="{_le(objective)}"}}{span}'
        valid = f"{LATENCY}_count{{{selector}}}{span}"
    return good, valid


def selector_of(environment: str, model: str) -> str:
    """Label matchers of one endpoint; both names have no character that needs escaping."""
    return f'environment="{environment}",model="{model}"'


def _group(endpoint: PromisedEndpoint, base_url: str) -> dict[str, Any]:
    rules: list[dict[str, Any]] = []
    for objective in endpoint.objectives:
        labels = {
            "environment": endpoint.environment,
            "model": endpoint.model,
            "objective": objective.name,
        }
        rules += _recorded(endpoint, objective, labels)
        rules += [
            _alert(endpoint, objective, policy, labels, base_url) for policy in burn_rates.POLICIES
        ]
        if objective.threshold_ms is not None:
            rules.append(_blind(endpoint, objective, labels))
    return {
        "name": f"covenant-{endpoint.environment}-{endpoint.model}-contract-{endpoint.revision}",
        "interval": INTERVAL,
        "rules": rules,
    }


def _recorded(
    endpoint: PromisedEndpoint, objective: Objective, labels: dict[str, str]
) -> Iterable[dict[str, Any]]:
    selector = selector_of(endpoint.environment, endpoint.model)
    yield {"record": TARGET, "expr": f"vector({_decimal(_share(objective))})", "labels": labels}
    for span in burn_rates.SPANS:
        window = burn_rates.short_span(span)
        good, valid = good_and_valid(objective, selector, window)
        yield {
            "record": f"{ERROR_RATIO}{window}",
            "expr": f"1 - sum(rate({good})) / (sum(rate({valid})) > 0)",
            "labels": labels,
        }
    for policy in burn_rates.POLICIES:
        window = burn_rates.short_span(policy.long)
        good, valid = good_and_valid(objective, selector, window)
        yield {
            "record": f"{BAD_EVENTS}{window}",
            "expr": f"sum(increase({valid})) - sum(increase({good}))",
            "labels": labels,
        }


def _alert(
    endpoint: PromisedEndpoint,
    objective: Objective,
    policy: BurnPolicy,
    labels: dict[str, str],
    base_url: str,
) -> dict[str, Any]:
    long, short = burn_rates.short_span(policy.long), burn_rates.short_span(policy.short)
    named = f'{selector_of(endpoint.environment, endpoint.model)},objective="{objective.name}"'
    times = f"{burn_rates.factor(policy, objective):.12g}"
    limit = f"{times} * {_decimal(1 - _share(objective))}"
    rare = burn_rates.LEAST_BAD - 0.5
    conditions = (
        f"{ERROR_RATIO}{long}{{{named}}} > ({limit})",
        f"{ERROR_RATIO}{short}{{{named}}} > ({limit})",
        # Half an event less: an increase is extrapolated and may fall a little short.
        f"{BAD_EVENTS}{long}{{{named}}} > {rare:g}",
    )
    unless = f"{MAINTENANCE}{{{selector_of(endpoint.environment, endpoint.model)}}} == 1"
    place = f"{endpoint.environment}/{endpoint.model}"
    annotations = {
        "summary": f"{place} burns its error budget of {objective.name}",
        "description": (
            f"Over {long} and over {short} it is spent more than {times} times too fast; "
            "over the longer one {{ $value | humanizePercentage }} of the valid requests were "
            f"bad, {_decimal(1 - _share(objective))} may be."
        ),
    }
    if base_url:
        annotations["dashboard_url"] = f"{base_url}/endpoints/{place}/objectives/"
    return {
        "alert": "CovenantErrorBudgetBurn",
        "expr": "\nand\n".join(conditions) + f"\nunless on (environment, model)\n{unless}",
        "labels": {
            **labels,
            "severity": policy.severity.value,
            "long_window": long,
            "short_window": short,
        },
        "annotations": annotations,
    }


def _blind(
    endpoint: PromisedEndpoint, objective: Objective, labels: dict[str, str]
) -> dict[str, Any]:
    """Without its bound an objective has no numbers, and no alert of its could ever fire."""
    selector = selector_of(endpoint.environment, endpoint.model)
    good, valid = good_and_valid(objective, selector, "")
    return {
        "alert": "CovenantObjectiveBlind",
        "expr": f"sum({valid}) > 0\nunless\nsum({good}) >= 0",
        "for": BLIND_FOR,
        "labels": {**labels, "severity": "P3"},
        "annotations": {
            "summary": (
                f"Nothing says whether {endpoint.environment}/{endpoint.model} keeps its latency"
            ),
            "description": (
                f"Answers come, but /metrics has no bound of {objective.threshold_ms:g} ms."
            ),
        },
    }


def _le(objective: Objective) -> str:
    """The bound as `/metrics` writes it: seconds, at most twelve digits."""
    return f"{(objective.threshold_ms or 0.0) / 1000:.12g}"


def _share(objective: Objective) -> Fraction:
    return Fraction(str(objective.target)) / 100


def _decimal(share: Fraction) -> str:
    """A share in decimal digits; targets have few, so that none is lost."""
    return f"{(Decimal(share.numerator) / Decimal(share.denominator)).normalize():f}"
