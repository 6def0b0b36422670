"""The editor's form in the reader's language: sections, labels, units and what a field means."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from models_registry.rules.contract_fields import Field, Rows, Section

SECTIONS: dict[str, tuple[str | Promise, str | Promise]] = {
    "objectives": (_("What is promised"), _("Limits that are measured at the gateway.")),
    "interface": (
        _("Inputs and outputs"),
        _("Tensors as callers see them. A size that varies has a name; the batch is called batch."),
    ),
    "request": (
        _("One request"),
        _("How long a caller waits, and whether a request may be run twice."),
    ),
    "errors": (_("Errors"), _("Error answers that a caller may rely on.")),
    "fallback": (
        _("Fallback"),
        _(
            "The answer while the model is down: of the first rule that holds for a row, else the "
            "fixed one. Give every output a value, or none."
        ),
    ),
    "logging": (_("Logging"), _("What every request’s log line carries, and for how long.")),
    "drift": (_("Drift"), _("Limits above which an alert is raised. Empty: none.")),
    "explanation": (_("Explanation"), _("How an answer is explained to those it is about.")),
    "validation": (
        _("Validation"),
        _("The gate for each version. A field left empty has its default."),
    ),
    "rollout": (_("Rollout"), _("How a new version gets traffic, and what stops it.")),
    "approvals": (_("Approvals"), _("Who must approve a release, for each environment.")),
    "validity": (_("Last day"), _("Until when the promise holds. Empty: until it is replaced.")),
}

LABELS: dict[str, str | Promise] = {
    "latency_threshold": _("Latency, at most"),
    "latency_target": _("of requests"),
    "latency_window": _("measured over"),
    "availability_target": _("Available for"),
    "availability_window": _("measured over"),
    "qps": _("Up to a load of"),
    "name": _("Name"),
    "dtype": _("Type"),
    "dims": _("Sizes"),
    "min": _("Smallest"),
    "max": _("Largest"),
    "nan": _("NaN"),
    "sums_to": _("Adds up to"),
    "timeout_ms": _("Time-out"),
    "idempotent": _("May be run again"),
    "status": _("Status"),
    "code": _("Code"),
    "retry": _("Trying again helps"),
    "counts_against": _("Counts against"),
    "answer": _("Value"),
    "when": _("When"),
    "gives": _("Answers"),
    "row": _("Inputs"),
    "required": _("Fields"),
    "retention_days": _("Kept for"),
    "drift_score": _("Drift of inputs (KS), above"),
    "entropy_above": _("Entropy of outputs, above"),
    "entropy_for": _("for"),
    "method": _("Method"),
    "samples": _("Random inputs"),
    "seed": _("Seed"),
    "atol": _("Absolute tolerance"),
    "rtol": _("Relative tolerance"),
    "p95_ms": _("P95 of one inference"),
    "simplify_atol": _("Simplified, absolute"),
    "simplify_rtol": _("Simplified, relative"),
    "graph_atol": _("Optimised graph, absolute"),
    "graph_rtol": _("Optimised graph, relative"),
    "fp16_atol": _("fp16, absolute"),
    "fp16_rtol": _("fp16, relative"),
    "int8_atol": _("int8, absolute"),
    "int8_rtol": _("int8, relative"),
    "start": _("First share"),
    "step": _("Each step adds"),
    "every": _("A step every"),
    "max_error_rate": _("Stop above an error rate of"),
    "max_p99_ms": _("Stop above a P99 of"),
    "min_requests": _("Judge after"),
    "roles": _("Must approve"),
    "valid_until": _("Holds until"),
}

UNITS: dict[str, str | Promise] = {
    "latency_threshold": "ms",
    "latency_target": "%",
    "availability_target": "%",
    "timeout_ms": "ms",
    "qps": _("per second"),
    "retention_days": _("days"),
    "p95_ms": "ms",
    "start": "%",
    "step": "%",
    "max_error_rate": "%",
    "max_p99_ms": "ms",
    "min_requests": _("requests"),
}

HINTS: dict[str, str | Promise] = {
    "latency_window": _("28d or calendar_month"),
    "availability_window": _("28d or calendar_month"),
    "dims": _("batch, 10"),
    "entropy_for": _("30s, 5m, 1h"),
    "every": _("30s, 15m, 1h"),
    "required": _("separated by commas"),
    "valid_until": "2027-12-31",
    "when": "amount > 1000.0",
    "row": '{"amount": 1200}',
}

CHOICES: dict[str, str | Promise] = {
    "": _("as usual: refused"),
    "refuse": _("refused"),
    "allow": _("let through"),
    "none": _("none"),
    "shap": "SHAP",
    "true": _("yes"),
    "false": _("no"),
    "caller": _("the caller"),
    "provider": _("the provider"),
    "data_scientist": _("data scientist"),
    "sre": "SRE",
    "business_owner": _("business owner"),
    "platform_admin": _("platform admin"),
}
COUNTS_NOBODY = _("nobody")

ROWS: dict[str, tuple[str | Promise, str | Promise]] = {
    "inputs": (_("Inputs"), _("Add an input")),
    "outputs": (_("Outputs"), _("Add an output")),
    "errors": ("", _("Add an error")),
    "fallback": (_("Fixed answer"), _("Add a value")),
    "rules": (_("Rules, in the order in which they are tried"), _("Add a rule")),
    "examples": (_("Examples that test the rules"), _("Add an example")),
    "approvals": ("", _("Add an environment")),
}
NEW_NAMES: dict[str, str | Promise] = {
    "fallback": _("Name of the value"),
    "approvals": _("Name of the environment"),
}
_MONO = frozenset({"dims", "code", "name", "required", "answer", "dtype", "when"})
_WIDE = frozenset({"required", "roles", "answer", "when", "gives", "row"})


@dataclass(frozen=True, slots=True)
class Choice:
    value: str
    label: str | Promise
    chosen: bool


@dataclass(frozen=True, slots=True)
class Control:
    """One field as `_control.html` draws it."""

    id: str
    name: str
    pointer: str
    kind: str
    value: str
    label: str | Promise
    unit: str | Promise
    hint: str | Promise
    choices: tuple[Choice, ...]
    is_mono: bool
    is_wide: bool


def section_rows(found: Iterable[Section]) -> list[dict[str, Any]]:
    """The form's sections with their controls."""
    return [
        {
            "key": section.key,
            "title": SECTIONS[section.key][0],
            "about": SECTIONS[section.key][1],
            "pointers": " ".join(section.pointers),
            "controls": [_control(field) for field in section.fields],
            "lists": [_list(rows) for rows in section.rows],
        }
        for section in found
    ]


def _list(rows: Rows) -> dict[str, Any]:
    title, add = ROWS[rows.label]
    return {
        "pointer": rows.pointer,
        "title": title,
        "add": add,
        "new_name": NEW_NAMES.get(rows.label, ""),
        "rows": [
            {
                "pointer": row.pointer,
                "title": row.title,
                "controls": [_control(field) for field in row.fields],
            }
            for row in rows.rows
        ],
        "is_cut": rows.is_cut,
        "is_table": rows.label in ("inputs", "outputs", "errors"),
    }


def _control(field: Field) -> Control:
    return Control(
        id="f-" + hashlib.sha256(field.pointer.encode()).hexdigest()[:10],
        name=field.name,
        pointer=field.pointer,
        kind=field.kind,
        value=field.value,
        label=LABELS[field.label],
        unit=UNITS.get(field.label, ""),
        hint=HINTS.get(field.label, ""),
        choices=tuple(_choices(field)),
        is_mono=field.label in _MONO or field.kind in ("json", "words"),
        is_wide=field.label in _WIDE,
    )


def _choices(field: Field) -> Iterable[Choice]:
    if field.kind == "roles":
        for role in field.choices:
            yield Choice(role, CHOICES[role], role in field.chosen)
        return
    if field.choices and field.value not in field.choices:
        # What the YAML holds is shown even where it is wrong, or not there yet.
        yield Choice(field.value, field.value or "—", True)
    for one in field.choices:
        is_nobody = field.label == "counts_against" and one == "none"
        label = COUNTS_NOBODY if is_nobody else CHOICES.get(one, one)
        yield Choice(one, label, one == field.value)
