"""Try it: the panel on a version's page that sends a sample, and the same as a page of its own."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.api.problems import remember_refusal
from console.errors import Conflict, CovenantError, Invalid, NotAllowed, NotFound, TooLarge
from console.errors import Unavailable as Away
from deployments.rules.trials.answers import Comparison, row_of, shortened
from deployments.rules.trials.requests import read_request
from deployments.selectors.trials.places import TrialPlace, trial_places
from deployments.services.fleet.node_files import recorded_sample
from deployments.services.trials.samples import OPERATORS, Trial, declared_inputs, try_version
from models_registry.models import ModelVersion
from models_registry.selectors.releases import find_environment
from models_registry.selectors.versions import find_version
from models_registry.views.refusals import may, wants_fragment

REFUSED = (Invalid, Conflict, NotAllowed, NotFound, TooLarge, Away)
MOST_PREFILLED = 64 * 1024
MOST_SHOWN = 256 * 1024


@require_http_methods(["GET", "HEAD", "POST"])
def panel(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """The form and, after a POST, the answer or why there is none; a page where htmx is absent."""
    version = find_version(name, number, user=user_of(request))
    if request.method != "POST":
        return _answer(request, version, {})
    written = request.POST.get("request", "")
    chosen = request.POST.get("environment", "")
    kept: dict[str, Any] = {"written": written[:MOST_SHOWN], "chosen": chosen}
    try:
        trial = try_version(
            version=version,
            environment=find_environment(chosen),
            request=read_request(written) if written.strip() else None,
            actor=actor_of(request),
        )
    except REFUSED as error:
        remember_refusal(request, error)
        return _answer(request, version, {**kept, "refusal": error}, error=error)
    return _answer(request, version, {**kept, "trial": trial, **_shown(trial)})


def _shown(trial: Trial) -> dict[str, Any]:
    raw = [json.dumps(shortened(one), ensure_ascii=False) for one in trial.outputs]
    lines = ",\n".join("    " + one for one in raw)
    return {
        "outputs": [row_of(one) for one in trial.outputs],
        "raw": f'{{\n  "outputs": [\n{lines}\n  ]\n}}',
        "figures": _figures(trial.comparison),
    }


def _figures(comparison: Comparison | None) -> dict[str, str]:
    if comparison is None:
        return {}
    largest = comparison.largest
    return {
        "largest": "—" if largest is None else f"{largest:.2g}",
        "atol": f"{comparison.atol:g}",
        "rtol": f"{comparison.rtol:g}",
    }


def _answer(
    request: HttpRequest,
    version: ModelVersion,
    told: dict[str, Any],
    *,
    error: CovenantError | None = None,
) -> HttpResponse:
    actor = actor_of(request)
    places = trial_places(version)
    recorded = _recorded(version) if places else ""
    context = {
        "nav_section": "models",
        "version": version,
        "model": version.model,
        "offered": places,
        "chosen": _first_choice(places),
        "recorded": recorded,
        "written": recorded if len(recorded) <= MOST_PREFILLED else "",
        "has_sample": bool(recorded),
        "inputs": declared_inputs(version),
        "may_try": allowed(actor, "version.try", version.model.team_id)
        and (
            not OPERATORS.isdisjoint(actor.user.roles_in(version.model.team_id))
            or may(actor, "version.try", version.model)
        ),
        **told,
    }
    fragment = wants_fragment(request)
    template = "deployments/panels/try.html" if fragment else "deployments/trials/page.html"
    status = 200
    if error is not None:
        # What htmx swaps in for a refusal is a conflict or a fault of the form.
        status = 409 if fragment and error.status != 422 else error.status
    return render(request, template, context, status=status)


def _first_choice(places: list[TrialPlace]) -> str:
    """An environment that is no production comes first."""
    names = sorted(places, key=lambda place: place.environment.production)
    return names[0].environment.name if names else ""


def _recorded(version: ModelVersion) -> str:
    """The recorded request as a person reads it: one line for each input; "" without one."""
    sample = recorded_sample(version)
    if sample is None:
        return ""
    inputs = sample["request"].get("inputs", [])
    lines = ",\n".join("    " + json.dumps(one, ensure_ascii=False) for one in inputs)
    return f'{{\n  "inputs": [\n{lines}\n  ]\n}}'
