"""Contracts to start from: one for each usual kind of service, with comments that say why.

A template is a contract without a model, an interface and the fallback's values: these come from
the version. A limit that the version was measured to miss is taken to what it can keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

from console.errors import FieldError, NotFound
from models_registry.rules.contract_edits import Edit, edit_text
from models_registry.rules.contract_terms import gettext_noop
from models_registry.rules.contract_yaml import load_yaml

_FOLDER = Path(__file__).with_name("contract_starts")


@dataclass(frozen=True, slots=True)
class Template:
    """`risk_classes` are those that it is made for; title and summary are to be translated.

    `valid_days`: the promise ends so many days after it was written; 0: it has no end.
    """

    key: str
    title: str
    summary: str
    risk_classes: frozenset[str]
    valid_days: int = 0


TEMPLATES: Final[tuple[Template, ...]] = (
    Template(
        "batch_scoring",
        gettext_noop("Batch scoring"),
        gettext_noop("Many rows at night: gets through within seconds, no drift or explanation."),
        frozenset({"low"}),
    ),
    Template(
        "online_scoring",
        gettext_noop("Online scoring with a fallback"),
        gettext_noop("A score while a customer waits: 80 ms, rules answer when the model is away."),
        frozenset({"low", "medium"}),
    ),
    Template(
        "vision_classifier",
        gettext_noop("Vision classifier"),
        gettext_noop("Images in, classes out: 250 ms, unsure answers watched, fp16 and int8."),
        frozenset({"low", "medium"}),
    ),
    Template(
        "language_model",
        gettext_noop("Language model: ranking, search, moderation"),
        gettext_noop("Text of any length: 400 ms for most requests, texts stay out of the log."),
        frozenset({"low", "medium"}),
    ),
    Template(
        "realtime_authorisation",
        gettext_noop("Real-time authorisation"),
        gettext_noop("Inside a payment: 30 ms, hardly ever away, two people approve."),
        frozenset({"medium"}),
    ),
    Template(
        "high_risk_decision",
        gettext_noop("High-risk decision about a person"),
        gettext_noop("Explained answers, drift limits, a year of logs, all three seats approve."),
        frozenset({"high"}),
        valid_days=365,
    ),
)


def templates_for(risk_class: str) -> tuple[Template, ...]:
    """All templates, those made for the risk class first."""
    return tuple(sorted(TEMPLATES, key=lambda one: risk_class not in one.risk_classes))


def find_template(key: str) -> Template:
    """One template. Raises NotFound."""
    for template in TEMPLATES:
        if template.key == key:
            return template
    raise NotFound(
        f"There is no contract template {key[:40]}.",
        code="unknown_template",
        hint="Templates are " + ", ".join(one.key for one in TEMPLATES) + ".",
        errors=(FieldError("/template", "is no template"),),
    )


def fill(
    key: str,
    *,
    model: str,
    today: date,
    proposal: Mapping[str, Any] | None = None,
    promise: tuple[float, float] | None = None,
) -> str:
    """The template's YAML for a model, with its comments.

    `proposal` is a document of the version's (see contract_proposal): its interface and the values
    of its outputs are taken over. `promise` is (validation p95_ms, latency threshold_ms), in
    milliseconds, that the version can keep: a tighter limit of the template gives way to it.
    """
    template = find_template(key)
    text = _text(key)
    body: Any = load_yaml(text)
    interface = proposal["interface"] if proposal else {"inputs": [], "outputs": []}
    edits = [Edit(("model",), model), Edit(("interface",), interface)]
    answers = proposal["fallback"]["response"] if proposal else {}
    for output in interface["outputs"]:
        if output["name"] in answers:
            place = ("fallback", "response", output["name"])
            edits.append(Edit(place, answers[output["name"]]))
    if template.valid_days:
        until = today + timedelta(days=template.valid_days)
        edits.append(Edit(("valid_until",), until.isoformat()))
    if promise is not None:
        edits += _slower(body, *promise)
    return edit_text(text, edits).text


def _slower(body: Any, p95_ms: float, threshold_ms: float) -> list[Edit]:
    """The template's limits where the version cannot keep them."""
    wanted = {
        ("validation", "p95_ms"): p95_ms,
        ("rollout", "analysis", "max_p99_ms"): threshold_ms,
    }
    for index, objective in enumerate(body["objectives"]):
        if objective["name"] == "latency":
            wanted["objectives", index, "threshold_ms"] = threshold_ms  # type: ignore[index]
    edits = []
    for path, value in wanted.items():
        held = body
        for part in path:
            held = held[part]
        if value > held:
            edits.append(Edit(path, value))
    return edits


@cache
def _text(key: str) -> str:
    return (_FOLDER / f"{key}.yaml").read_text(encoding="utf-8")
