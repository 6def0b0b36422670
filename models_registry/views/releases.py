"""Releases: what is approved, by whom, and what is missing."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.actors import allowed
from console.api.authentication import actor_of, user_of
from console.errors import Conflict, CovenantError, Invalid, NotAllowed, NotFound
from console.models import Role
from console.rules.dsse import RELEASE_PAYLOAD_TYPE
from models_registry.models import Release, ReleaseState
from models_registry.selectors.catalog import find_model, seats_of
from models_registry.selectors.model_events import subject_events
from models_registry.selectors.releases import (
    ReleasePage,
    find_environment,
    find_release,
    policy_of,
    release_page,
)
from models_registry.selectors.versions import find_version
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
from models_registry.views.signing import signing_context
from models_registry.views.version_words import verdict_of

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
            actor=actor_of(request),
        )
    except (*REFUSED, NotFound) as error:
        tell(request, error)
        return redirect("models_registry:version-detail", name, number)
    if release.state == ReleaseState.APPROVED:
        messages.success(request, _("Approved at once: the environment asks for no approval."))
    else:
        messages.success(request, _("Asked for. Those who have to approve were told."))
    return redirect("models_registry:release-detail", release.pk)


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
    context = {**_context(request, release_id), "refusal": error}
    return render(request, "models_registry/releases/detail.html", context, status=error.status)


def _context(request: HttpRequest, release_id: uuid.UUID) -> dict[str, Any]:
    actor = actor_of(request)
    page = release_page(actor.user, release_id)
    release = page.release
    version = find_version(
        release.version.model.name, release.version.number, user=user_of(request)
    )
    model = find_model(version.model.name, user=user_of(request))
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
        "words": _words(page),
        "roles": _roles(page, {row.seat: row.user for row in seats_of(model)}),
        "files": [
            (name, sha256)
            for name in ("source", "onnx", "onnx_data", "config", "report")
            if (sha256 := release.digests.get(name))
        ],
        "broken": _broken(release),
        "why_not": _why_not(request, page),
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


def _broken(release: Release) -> CovenantError | None:
    """Why an approved release would not be deployed now, without reading its files."""
    if release.state != ReleaseState.APPROVED:
        return None
    try:
        verify_release(release, read_files=False)
    except CovenantError as error:
        return error
    return None


def _words(page: ReleasePage) -> str:
    """What the policy asks for, in the reader's language."""
    policy = policy_of(page.release)
    name = policy.environment
    contract = (
        _("It asks for a contract in force.")
        if policy.requires_contract
        else _("It asks for no contract.")
    )
    if not policy.roles:
        return (
            _("%(name)s asks for no approval: the release is approved by policy.") % {"name": name}
            + f" {contract}"
        )
    author = (
        _("The person who asked may give one of the approvals.")
        if policy.author_may_approve
        else _("The person who asked may not approve.")
    )
    asked = _("%(name)s asks for an approval in each of these roles.") % {"name": name}
    return f"{asked} {author} {contract}"


def _roles(page: ReleasePage, seats: dict[str, Any]) -> list[dict[str, Any]]:
    """Each role that is asked for: who gave its approval, or who can."""
    given = {one.role: one for one in page.approvals if one.approved}
    refusal = next((one for one in page.approvals if not one.approved), None)
    labels = dict(Role.choices)
    rows = [
        {
            "label": labels.get(role, role),
            "approval": given.get(role),
            "mine": role == page.can_decide_as,
            "holder": seats.get(role),
        }
        for role in (*page.standing.given, *page.standing.missing)
    ]
    if refusal is not None:
        rows = [row for row in rows if row["approval"] is not None]
        rows.append({"label": labels.get(refusal.role, refusal.role), "refusal": refusal})
    return rows


def _why_not(request: HttpRequest, page: ReleasePage) -> str:
    """Why the reader's word is not asked for, where somebody might expect it to be."""
    release, user = page.release, request.user
    if release.state != ReleaseState.PROPOSED or page.can_decide_as:
        return ""
    if any(one.person_id == user.pk for one in page.approvals):
        return _("You have decided already; the other approvals come from other people.")
    if release.requested_by_id == user.pk and not release.environment.author_may_approve:
        return _("You asked for it, so somebody else has to approve it.")
    if allowed(actor_of(request), "release.decide"):
        return _("Your roles are not among those that are still missing.")
    return ""
