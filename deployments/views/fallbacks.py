"""An endpoint's fallback: the rules in force, how often each answered, and trying a row."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.api.authentication import actor_of, user_of
from console.api.problems import remember_refusal
from console.errors import Conflict, CovenantError, FieldError, Invalid
from console.rules.canonical import loads_strict
from deployments.selectors.fallback.pages import FallbackPage, fallback_page
from deployments.services.trials.fallback_trials import FallbackTrial, try_fallback
from models_registry.rules.contract_types import Tensor
from models_registry.rules.expressions import is_single, row_values

MOST_WRITTEN = 64 * 1024


@require_http_methods(["GET", "HEAD", "POST"])
def detail(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """The page; a POST tries the row that was written, and changes nothing."""
    page = fallback_page(environment, model, user=user_of(request))
    context: dict[str, Any] = {"page": page, "written": _start(page)}
    refusal: CovenantError | None = None
    if request.method == "POST":
        written = request.POST.get("row", "")[:MOST_WRITTEN]
        context["written"] = written
        try:
            context["tried"] = _shown(
                try_fallback(
                    environment=environment,
                    model=model,
                    rows=[_row(written)],
                    actor=actor_of(request),
                )
            )
        except (Invalid, Conflict) as error:
            remember_refusal(request, error)
            context["refusal"] = refusal = error
    context |= {
        "nav_section": "endpoints",
        "environment": environment,
        "model": model,
        "rules": [
            {
                "number": rule.number,
                "name": rule.name,
                "when": rule.when,
                "response": json.dumps(dict(rule.response), ensure_ascii=False),
                "answered": rule.answered,
                "unjudged": rule.unjudged,
            }
            for rule in page.rules
        ],
        "fixed": json.dumps(dict(page.fallback.response), ensure_ascii=False)
        if page.fallback
        else "",
        "current_environment": {
            "name": environment,
            "is_production": environment == "production",
        },
    }
    fragment = bool(request.headers.get("HX-Request")) and request.method == "POST"
    template = "_tried.html" if fragment else "detail.html"
    return render(
        request,
        f"deployments/fallbacks/{template}",
        context,
        status=422 if refusal and not fragment else 200,
    )


def _row(written: str) -> dict[str, Any]:
    """What was written, as one row. Raises Invalid when it is none."""
    value = loads_strict(written) if written.strip() else {}
    if not isinstance(value, dict):
        raise Invalid(
            _("This is no row: an object with the inputs’ names is expected."),
            code="invalid_rows",
            hint=_("Write it as in the example."),
            errors=(FieldError("/rows/0", "is no object"),),
        )
    return value


def _start(page: FallbackPage) -> str:
    """A row to start from: the first example's inputs, or zeros."""
    if page.document is None:
        return ""
    examples = page.document.fallback.examples
    inputs: dict[str, Any] = (
        dict(examples[0].inputs)
        if examples
        else {tensor.name: _zero(tensor) for tensor in page.document.interface.inputs}
    )
    return json.dumps(inputs, ensure_ascii=False)


def _zero(tensor: Tensor) -> object:
    one: object = {"BYTES": "", "BOOL": False}.get(tensor.dtype, 0)
    return one if is_single(tensor) else [one] * min(row_values(tensor) or 1, 64)


def _shown(trial: FallbackTrial) -> dict[str, Any]:
    (row,) = trial.rows
    return {
        "rule": row.rule,
        "unjudged": row.unjudged,
        "response": json.dumps(dict(row.response), ensure_ascii=False, indent=2),
    }
