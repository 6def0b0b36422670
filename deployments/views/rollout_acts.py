"""What a person may do with a rollout under way, and the doors for it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console.api.authentication import actor_of
from console.api.problems import remember_refusal
from console.errors import Conflict, Invalid, NotAllowed
from console.templatetags.console_formats import percentage
from deployments.models import Rollout, RolloutState
from deployments.rules.rollouts.progress import Cause
from deployments.rules.rollouts.types import SetWeight
from deployments.selectors.rollouts.pages import RolloutPage
from deployments.services.rollouts.acts import (
    abort_rollout,
    pause_rollout,
    promote_rollout,
    resume_rollout,
    skip_step,
)
from deployments.views import rollout_words as words


@require_POST
def pause(request: HttpRequest, rollout_id: uuid.UUID) -> HttpResponse:
    """No step begins until it is resumed."""
    return _done(request, rollout_id, pause_rollout, _("The rollout is paused."))


@require_POST
def resume(request: HttpRequest, rollout_id: uuid.UUID) -> HttpResponse:
    """Let a paused rollout go on, which approves a pause until approved."""
    return _done(request, rollout_id, resume_rollout, _("The rollout goes on."))


@require_POST
def skip(request: HttpRequest, rollout_id: uuid.UUID) -> HttpResponse:
    """End the step under way."""
    return _done(request, rollout_id, skip_step, _("The next step begins."))


@require_POST
def promote(request: HttpRequest, rollout_id: uuid.UUID) -> HttpResponse:
    """All the traffic at once."""
    return _done(request, rollout_id, promote_rollout, _("The new version gets all the traffic."))


@require_POST
def abort(request: HttpRequest, rollout_id: uuid.UUID) -> HttpResponse:
    """Take the traffic back and end it."""
    return _done(
        request, rollout_id, abort_rollout, _("The rollout is aborted; the baseline serves.")
    )


def _done(
    request: HttpRequest, rollout_id: uuid.UUID, act: Callable[..., Rollout], said: str
) -> HttpResponse:
    reason = request.POST.get("reason", "").strip()[:500]
    looked_at = request.POST.get("step", "")
    given = {"step": int(looked_at)} if looked_at.isascii() and looked_at.isdecimal() else {}
    try:
        act(rollout_id=rollout_id, reason=reason, actor=actor_of(request), **given)
    except (Conflict, Invalid, NotAllowed) as error:
        remember_refusal(request, error)
        messages.error(request, f"{error.message} {error.hint}".strip())
    else:
        messages.success(request, said)
    return redirect("deployments:rollout-detail", rollout_id)


def acts_of(page: RolloutPage) -> list[dict[str, Any]]:
    """What may be done with it now, each with what will happen and to whom."""
    rollout = page.rollout
    given = {
        "a": rollout.baseline,
        "b": rollout.version,
        "share": percentage(page.progress.weight / 100),
        "next": _next_share(page),
    }
    # What the dialog speaks of may be over by the time that it is pressed, or pressed twice.
    looked_at = [("step", min(page.progress.step + 1, len(page.plan.steps)))]
    pause = {
        "act": "pause",
        "label": _("Pause"),
        "icon": "pause",
        "what": _("v%(b)s keeps %(share)s, and no step begins until somebody resumes.") % given,
        "effects": [
            _("Measuring goes on: a metric that fails, or the fast check, still rolls back.")
        ],
    }
    resume = {
        "act": "resume",
        "label": _("Resume"),
        "icon": "play",
        "tone": "primary",
        "what": _resuming(page) % given,
        "effects": [],
        "fields": looked_at,
    }
    skip = {
        "act": "skip",
        "label": _("Skip step"),
        "icon": "arrow-right",
        "what": _("The step under way ends now, whatever it waits for."),
        "effects": [_("What comes next: %(next)s.") % given],
        "fields": looked_at,
    }
    promote = {
        "act": "promote",
        "label": _("Promote"),
        "icon": "check",
        "what": _("v%(b)s gets all the traffic now, and the rollout ends.") % given,
        "effects": [_("The steps that are left, and their analysis, are not waited for.")],
    }
    abort = {
        "act": "abort",
        "label": _("Abort"),
        "icon": "rollback",
        "tone": "bad",
        "what": _("v%(b)s loses its traffic now: all of it goes back to v%(a)s.") % given,
        "effects": [_("The rollout ends; to try again, start another one.")],
    }
    first = resume if rollout.state == RolloutState.PAUSED else pause
    acts: list[dict[str, Any]] = [first, skip, promote, abort]
    for act in acts:
        act["url"] = reverse(f"deployments:rollout-{act['act']}", args=[rollout.pk])
        act["title"] = f"{act['label']}: {page.environment}/{page.model} v{rollout.version}"
    return acts


def _resuming(page: RolloutPage) -> str:
    match page.rollout.cause:
        case Cause.INCONCLUSIVE | Cause.NOT_READY:
            return _(
                "The present step begins anew with %(share)s for v%(b)s, and is measured anew."
            )
        case Cause.TRAFFIC_MOVED | Cause.REFUSED_BY_GATEWAY:
            return _("v%(b)s gets the share of the present step again, and the rollout goes on.")
        case Cause.APPROVAL:
            return _("It is approved; what comes next: %(next)s.")
        case _:
            return _("The rollout goes on where it stood, with %(share)s for v%(b)s.")


def _next_share(page: RolloutPage) -> str:
    """What the next step does, in words."""
    index = page.progress.step + 1
    if index >= len(page.plan.steps):
        return _("the rollout ends with all the traffic on v%(b)s") % {"b": page.rollout.version}
    step = page.plan.steps[index]
    if isinstance(step, SetWeight):
        return _("v%(b)s gets %(share)s") % {
            "b": page.rollout.version,
            "share": percentage(step.points / 100),
        }
    return words.step_words(page.plan, index)
