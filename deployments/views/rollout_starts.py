"""Starting a rollout: the form with the contract's defaults, and the preview of its steps."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.api.problems import remember_refusal
from console.errors import Conflict, Invalid, NotAllowed, NotFound
from deployments.rollout_forms import RolloutForm, initial_of
from deployments.rules.rollouts.drafts import draft_of, plan_document
from deployments.rules.rollouts.plan import parse_plan
from deployments.rules.rollouts.stages import planned_stages, whole_s
from deployments.selectors.rollouts.starts import RolloutStart, rollout_start
from deployments.services.rollouts.acts import start_rollout
from deployments.views.rollouts import stage_row

REFUSED = (Invalid, Conflict, NotAllowed, NotFound)


@require_http_methods(["GET", "HEAD", "POST"])
def start(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """The form; posted, the rollout starts. `preview` shows the steps alone."""
    place = rollout_start(environment, model, user=user_of(request))
    versions = place.ready
    if request.method == "POST":
        form = RolloutForm(request.POST, versions=versions)
        if "preview" in request.POST:
            return _preview(request, place, form)
        if form.is_valid() and (rollout_id := _started(request, place, form)):
            return redirect("deployments:rollout-detail", rollout_id)
        return _page(request, place, form, status=422)
    return _page(request, place, RolloutForm(versions=versions, initial=_initial(request, place)))


def _started(request: HttpRequest, place: RolloutStart, form: RolloutForm) -> Any:
    """The id of the rollout; None where it was refused, with the faults in the form."""
    given = form.cleaned_data
    try:
        rollout = start_rollout(
            environment=place.environment,
            model=place.model,
            version=given["version"],
            baseline=given["baseline"],
            plan=_document(form),
            reason=given["reason"],
            actor=actor_of(request),
        )
    except REFUSED as error:
        remember_refusal(request, error)
        form.add_refusal(error)
        return None
    messages.success(request, _("The rollout of v%(b)s has started.") % {"b": rollout.version})
    return rollout.pk


def _preview(request: HttpRequest, place: RolloutStart, form: RolloutForm) -> HttpResponse:
    """The steps with their clock times, as if it began now; or what is wrong with them."""
    # Who only looks at the steps has not said why yet.
    form.fields["reason"].required = False
    context: dict[str, Any] = {"form": form}
    if form.is_valid():
        try:
            context |= _planned(parse_plan(_document(form), place.clause))
        except Invalid as error:
            form.add_refusal(error)
    if request.headers.get("HX-Request"):
        return render(request, "deployments/rollouts/_preview.html", context)
    return _page(request, place, form, **context)


def _planned(plan: Any) -> dict[str, Any]:
    now = timezone.now()
    return {
        "steps": [stage_row(one) for one in planned_stages(plan, now)],
        "takes": whole_s(plan, now),
        "metric_count": len(plan.background),
    }


def _document(form: RolloutForm) -> Any:
    """What was typed as YAML, or what the fields come to."""
    text = form.cleaned_data["document"]
    return text if text.strip() else plan_document(form.draft())


def _initial(request: HttpRequest, place: RolloutStart) -> dict[str, Any]:
    wanted = request.GET.get("version", "")
    version = int(wanted) if wanted.isdecimal() and len(wanted) < 10 else place.candidate
    return initial_of(draft_of(place.clause), version=version, baseline=place.baseline)


def _page(
    request: HttpRequest, place: RolloutStart, form: RolloutForm, *, status: int = 200, **more: Any
) -> HttpResponse:
    shown: dict[str, Any] = {}
    if "steps" not in more and not form.is_bound:
        plan = parse_plan(plan_document(draft_of(place.clause)), place.clause)
        shown = _planned(plan)
    context = {
        "place": place,
        "environment": place.environment,
        "model": place.model,
        "form": form,
        "may_start": allowed(actor_of(request), "rollout.start", place.team_id),
        "nav_section": "endpoints",
        "current_environment": {
            "name": place.environment,
            "is_production": place.environment == "production",
        },
        **shown,
        **more,
    }
    return render(request, "deployments/rollouts/start.html", context, status=status)
