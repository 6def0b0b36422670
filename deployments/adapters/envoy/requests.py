"""Checks of a request before any version gets it: the script, and what it is told of a route.

The script is the same for every endpoint; what differs comes as lines of text with the route's
metadata, made of names that were checked.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from deployments.rules.access.input_rules import InputRule, InputRules
from deployments.rules.access.rules import Validation
from deployments.rules.gateways.snapshots import EndpointRoutes

LARGEST_BODY = 64 * 1024 * 1024
"""Bytes that a body has at most: it is looked at as a whole before any model gets it."""

_FOLDER = Path(__file__).with_name("requests")
_PARTS = ("json", "tensors", "rules", "inputs", "guard", "judge", "filter")


@cache
def requests_script() -> str:
    """All parts of the script as one text, since Envoy takes one."""
    parts = ((_FOLDER / f"{part}.lua").read_text(encoding="utf-8") for part in _PARTS)
    return "\n".join(parts)


def request_facts(endpoint: EndpointRoutes) -> dict[str, Any]:
    """The route's metadata for the filter."""
    facts: dict[str, Any] = {
        "validation": endpoint.access.validation.value,
        "code": endpoint.invalid_code,
        "most_bytes": endpoint.access.limits.max_body_bytes or LARGEST_BODY,
    }
    if endpoint.input_rules and endpoint.access.validation is Validation.REFUSE:
        facts["inputs"] = rule_lines(endpoint.input_rules)
    return facts


def rule_lines(rules: InputRules) -> str:
    """Rules as lines of fields between tabs; names of tensors hold no control characters."""
    lines = [_input_line(rule) for rule in rules.inputs]
    lines += [f"output\t{name}" for name in rules.outputs]
    if rules.most_rows is not None:
        lines.append(f"batch\t{rules.most_rows}")
    return "\n".join(lines)


def _input_line(rule: InputRule) -> str:
    fields = (
        "input",
        rule.name,
        rule.datatype,
        ",".join(map(str, rule.dims)),
        _limit(rule.minimum),
        _limit(rule.maximum),
        "refuse" if rule.refuse_nan else "allow",
    )
    return "\t".join(fields)


def _limit(value: float | None) -> str:
    return "" if value is None else repr(float(value))
