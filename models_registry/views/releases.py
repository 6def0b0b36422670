"""Releases: what is approved, by whom, and what is missing."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.api.problems import remember_refusal
from console.errors import Conflict, CovenantError, Invalid, NotAllowed, NotFound, TooMany
from console.rules.dsse import RELEASE_PAYLOAD_TYPE
from console.selectors.paging import page_of
from console.services.reauthentication import ways_to_confirm
from models_registry.forms import ReleaseFilterForm
from models_registry.models import Release, ReleaseState
from models_registry.rules import break_glass as break_glass_rule
from models_registry.rules import freezes
from models_registry.rules.approval_policy import WAIVABLE
from models_registry.selectors.catalog import find_model
from models_registry.selectors.model_events import subject_events
from models_registry.selectors.release_policies import broken_glass
from models_registry.selectors.release_policies import verdict_of as policy_verdict
from models_registry.selectors.releases import (
    ReleasePage,
    environment_list,
    find_environment,
    find_release,
    release_list,
    release_page,
)
from models_registry.selectors.versions import find_version
from models_registry.services.break_glass import break_the_glass, review_break_glass
from models_registry.services.release_records import subject_of
from models_registry.services.releases import (
    approve_release,
    refuse_release,
    request_release,
    verify_release,
    withdraw_release,
)
from models_registry.views.events import timeline
from models_registry.views.refusals import may, tell, wants_fragment
from models_registry.views.release_words import (
    condition_rows,
    moment_words,
    policy_words,
    preview_words,
    waived_words,
)
from models_registry.views.signing import signing_context
from models_registry.views.version_words import verdict_of

SOON = timedelta(days=3)
REFUSED = (Invalid, Conflict, NotAllowed)


@require_POST
def ask(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Ask to release a version to an environment."""
    try:
        release = request_release(
            model=find_model(name, user=user_of(request)),
            number=number,
            environment=find_environment(request.POST.get("environment", "")),
            note=request.POST.get("note", ""),
            break_glass=request.POST.get("break_glass", "") == "1",
            actor=actor_of(request),
        )
    except (*REFUSED, NotFound) as error:
        tell(request, error)
        return redirect("models_registry:version-detail", name, number)
    if request.POST.get("break_glass"):
        messages.info(request, _("Asked for. It takes breaking the glass, on this page."))
    elif release.state == ReleaseState.APPROVED:
        messages.success(request, _("Approved at once: the environment asks for no approval."))
    else:
        messages.success(request, _("Asked for. Those who have to approve were told."))
    return redirect("models_registry:release-detail", release.pk)


@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Releases of all models, newest first, with filters; the table alone when htmx asks."""
    form = ReleaseFilterForm(request.GET)
    form.is_valid()
    wanted: dict[str, str] = {name: form.cleaned_data.get(name) or "" for name in form.fields}
    now = timezone.now()
    page = page_of(
        release_list(user=user_of(request), **wanted).order_by("-requested_at", "-pk"),
        cursor=request.GET.get("cursor", ""),
    )
    rows = [(release, policy_verdict(release, now)) for release in page.rows]
    context = {
        "nav_section": "models",
        "form": form,
        "wanted": wanted,
        "unfiltered": not any(wanted.values()),
        "environments": environment_list(),
        "rows": [
            {"release": one, "missing": preview_words(verdict.unmet), "lapses": verdict.lapses_at}
            for one, verdict in rows
        ],
        **page.links(request.GET),
    }
    part = "_list" if wants_fragment(request) else "list"
    return render(request, f"models_registry/releases/{part}.html", context)


@require_safe
def detail(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """One release; the changing part alone when htmx asks."""
    fragment = wants_fragment(request)
    template = (
        "models_registry/releases/_release.html"
        if fragment
        else "models_registry/releases/detail.html"
    )
    return render(request, template, _context(request, release_id))


@require_POST
def approve(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Take in the approval that the browser signed."""
    try:
        release = approve_release(
            release=find_release(release_id, user=user_of(request)),
            envelope=request.POST.get("envelope", ""),
            actor=actor_of(request),
        )
    except REFUSED as error:
        return _refused(request, release_id, error)
    if release.state == ReleaseState.APPROVED:
        messages.success(request, _("Approved: it may be deployed now."))
    else:
        messages.success(request, _("Your approval is kept; others are still missing."))
    return redirect("models_registry:release-detail", release_id)


@require_POST
def refuse(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Refuse, with a reason."""
    try:
        refuse_release(
            release=find_release(release_id, user=user_of(request)),
            reason=request.POST.get("reason", ""),
            actor=actor_of(request),
        )
    except REFUSED as error:
        return _refused(request, release_id, error)
    messages.success(request, _("Refused. The person who asked was told why."))
    return redirect("models_registry:release-detail", release_id)


@require_POST
def break_glass(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Release against the policy: the browser signed, the person proved again who they are."""
    try:
        break_the_glass(
            release=find_release(release_id, user=user_of(request)),
            envelope=request.POST.get("envelope", ""),
            reason=request.POST.get("reason", ""),
            password=request.POST.get("password", ""),
            code=request.POST.get("code", ""),
            session=request.session,
            actor=actor_of(request),
        )
    except (*REFUSED, TooMany) as error:
        return _refused(request, release_id, error)
    messages.warning(
        request,
        _("Released against the policy. The other operators and the model’s seats were told."),
    )
    return redirect("models_registry:release-detail", release_id)


@require_POST
def review(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Say what came of looking into a release against the policy."""
    try:
        review_break_glass(
            release=find_release(release_id, user=user_of(request)),
            review=request.POST.get("review", ""),
            actor=actor_of(request),
        )
    except (*REFUSED, NotFound) as error:
        return _refused(request, release_id, error)
    messages.success(request, _("Kept with the release, for good."))
    return redirect("models_registry:release-detail", release_id)


@require_POST
def withdraw(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Take the question back."""
    try:
        withdraw_release(
            release=find_release(release_id, user=user_of(request)),
            reason=request.POST.get("reason", "").strip(),
            actor=actor_of(request),
        )
    except REFUSED as error:
        return _refused(request, release_id, error)
    messages.success(request, _("Withdrawn."))
    return redirect("models_registry:release-detail", release_id)


def _refused(request: HttpRequest, release_id: uuid.UUID, error: CovenantError) -> HttpResponse:
    remember_refusal(request, error)
    context = {**_context(request, release_id), "refusal": error}
    return render(request, "models_registry/releases/detail.html", context, status=error.status)


def _context(request: HttpRequest, release_id: uuid.UUID) -> dict[str, Any]:
    actor, now = actor_of(request), timezone.now()
    page = release_page(actor.user, release_id, now)
    release = page.release
    version = find_version(release.version.model.name, release.version.number, user=actor.user)
    model = find_model(version.model.name, user=actor.user)
    broken, coming = _broken(release), freezes.next_freeze(page.policy.windows, now)
    return {
        "nav_section": "models",
        "page": page,
        "release": release,
        "version": version,
        "model": model,
        "environment": release.environment,
        "current_environment": {
            "name": release.environment.name,
            "is_production": release.environment.production,
        },
        "verdict": verdict_of(version),
        "words": policy_words(page.verdict),
        "conditions": condition_rows(page, actor.user),
        "refused_by": next((one for one in page.approvals if not one.approved), None),
        "lapses": _lapses(page, now),
        "coming_freeze": coming,
        "coming_words": moment_words(coming.since) if coming else "",
        "files": [
            (name, sha256)
            for name in ("source", "onnx", "onnx_data", "config", "report")
            if (sha256 := release.digests.get(name))
        ],
        # What the policy misses is listed with its conditions; what does not hold is not.
        "broken": None if broken and broken.code in WAIVABLE else broken,
        "blocked": broken is not None and broken.code in WAIVABLE,
        "why_not": _why_not(request, page),
        "glass": _glass(request, page, now),
        "events": timeline(subject_events(subject_of(release)), with_subject=False),
        "may_withdraw": release.state == ReleaseState.PROPOSED
        and (
            release.requested_by_id == actor.user.pk
            or may(actor, "release.request", release.version.model)
        ),
        "bundle_url": reverse("api:release-bundle", args=[model.name, release.pk]),
        "topic": f"release:{release.pk}",
        **signing_context(
            request,
            keys=page.keys,
            payload_url=reverse("api:release-payload", args=[model.name, release.pk]),
            payload_type=RELEASE_PAYLOAD_TYPE,
            digest=release.digest,
        ),
    }


def _lapses(page: ReleasePage, now: datetime) -> dict[str, Any] | None:
    """When the approvals lapse, and in how many days, for a release that has them all."""
    at = page.verdict.lapses_at
    if at is None or page.release.state != ReleaseState.APPROVED:
        return None
    return {"at": at, "days": max(0, (at - now).days), "soon": at - now < SOON}


def _glass(request: HttpRequest, page: ReleasePage, now: datetime) -> dict[str, Any]:
    """What the page says and offers about releasing against the policy."""
    actor, release = actor_of(request), page.release
    broken, team = broken_glass(release), release.version.model.team_id
    open_states = (ReleaseState.PROPOSED, ReleaseState.APPROVED)
    breaks = (
        broken is None
        and release.state in open_states
        and bool(page.glass_roles)
        and not page.verdict.may_deploy
        and allowed(actor, "release.break_glass", team)
    )
    return {
        "broken": broken,
        "waived": list(dict.fromkeys(waived_words(one["code"]) for one in broken.waived))
        if broken
        else [],
        "due": break_glass_rule.review_due(broken.at) if broken else None,
        "overdue": broken is not None
        and broken.reviewed_at is None
        and break_glass_rule.review_due(broken.at) <= now,
        "may_review": broken is not None
        and broken.reviewed_at is None
        and broken.person_id != actor.user.pk
        and allowed(actor, "release.review", team),
        "may_break": breaks,
        "would_waive": preview_words(page.verdict.unmet) if breaks else [],
        "ways": ways_to_confirm(user=actor.user, session=request.session) if breaks else None,
        "min_reason": break_glass_rule.MIN_REASON,
    }


def _broken(release: Release) -> CovenantError | None:
    """Why an approved release would not be deployed now, without reading its files."""
    if release.state != ReleaseState.APPROVED:
        return None
    try:
        verify_release(release, read_files=False)
    except CovenantError as error:
        return error
    return None


def _why_not(request: HttpRequest, page: ReleasePage) -> str:
    """Why the reader's word is not asked for, where somebody might expect it to be."""
    release, user = page.release, request.user
    if release.state != ReleaseState.PROPOSED or page.can_decide_as:
        return ""
    if any(one.person_id == user.pk for one in page.approvals):
        return _("You have decided already; the other approvals come from other people.")
    if page.authors.parts_of(actor_of(request).user.username):
        if release.requested_by_id == user.pk:
            return _("You asked for it, so somebody else has to approve it.")
        return _("You uploaded the version, so somebody else has to approve it.")
    if allowed(actor_of(request), "release.decide"):
        return _("Your roles are not among those that are still missing.")
    return ""
