"""Invitations: made and revoked by admins, accepted by whoever holds the link."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import require
from console.api.authentication import actor_of
from console.errors import Conflict, CovenantError, Invalid, NotFound, TooMany
from console.models import User
from console.people_forms import AcceptForm, InvitationForm
from console.rules.sign_in_means import PASSWORD
from console.selectors.paging import page_of
from console.selectors.teams import invitations, with_states
from console.services.invitations import (
    Invited,
    accept_invitation,
    invite,
    open_invitation,
    revoke_invitation,
)
from console.services.sign_ins import Missing, what_is_missing
from console.views.sign_in_steps import begin_pending, finish

SECRET = "invitation"  # noqa: S105 - the name of a session's entry


@require_http_methods(["GET", "POST"])
def index(request: HttpRequest) -> HttpResponse:
    """All invitations; a new one's link is shown this once."""
    actor = actor_of(request)
    require(actor, "user.manage")
    form = InvitationForm(request.POST or None)
    invited: Invited | None = None
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                invited = invite(**form.wanted(), actor=actor)
            except (Invalid, Conflict) as error:
                form.add_refusal(error)
            else:
                form, status = InvitationForm(), 201
    page = page_of(invitations(), cursor=request.GET.get("cursor", ""))
    context = {
        "invitations": with_states(page.rows),
        "form": form,
        "invited": invited,
        "mail": settings.MAIL_SERVER is not None,
        **page.links(request.GET),
    }
    response = render(request, "console/settings/invitations.html", context, status=status)
    if invited is not None:
        response["Cache-Control"] = "no-store"
    return response


@require_POST
def revoke(request: HttpRequest, invitation_id: UUID) -> HttpResponse:
    """Take an invitation back: its link opens nothing any more."""
    try:
        revoke_invitation(
            invitation_id=str(invitation_id),
            reason=request.POST.get("reason", "")[:300],
            actor=actor_of(request),
        )
    except Conflict as error:
        messages.error(request, f"{error.message} {error.hint}")
    else:
        messages.success(request, _("The invitation is revoked: its link opens nothing any more."))
    return redirect("console:invitations")


@login_not_required
@never_cache
@require_safe
def enter(request: HttpRequest, secret: str) -> HttpResponse:
    """Take the secret out of the address, so that no page, log or referrer behind it has it."""
    try:
        open_invitation(secret=secret, address=request.META.get("REMOTE_ADDR", ""))
    except (NotFound, TooMany) as error:
        return _refused(request, error)
    request.session[SECRET] = secret
    return redirect("console:invitation")


@sensitive_post_parameters("password", "again")
@login_not_required
@never_cache
@require_http_methods(["GET", "POST"])
def accept(request: HttpRequest) -> HttpResponse:
    """Choose a password and be in; the same words for every link that opens nothing."""
    secret = str(request.session.get(SECRET, ""))
    address = request.META.get("REMOTE_ADDR", "")
    try:
        invitation = open_invitation(secret=secret, address=address)
    except (NotFound, TooMany) as error:
        return _refused(request, error)
    form = AcceptForm(request.POST or None)
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                person = accept_invitation(
                    secret=secret,
                    password=form.cleaned_data["password"],
                    language=get_language() or "",
                    address=address,
                    source="page",
                    request_id=getattr(request, "request_id", ""),
                )
            except (NotFound, TooMany) as error:
                return _refused(request, error)
            except (Invalid, Conflict) as error:
                form.add_refusal(error)
            else:
                return _signed_in(request, person)
    context = {
        "form": form,
        "invitation": invitation,
        "provider": settings.CONFIG.sign_in.oidc,
    }
    return render(request, "console/accounts/invitation.html", context, status=status)


def _signed_in(request: HttpRequest, person: User) -> HttpResponse:
    """In at once, or on to setting up the second factor that this installation asks for."""
    del request.session[SECRET]
    if what_is_missing(person, PASSWORD) is Missing.NOTHING:
        messages.success(request, _("Welcome. Your account is made."))
        return finish(request, person, by=PASSWORD, after="")
    begin_pending(request, person, by=PASSWORD, after="")
    return redirect("console:sign-in-set-up")


def _refused(request: HttpRequest, error: CovenantError) -> HttpResponse:
    response = render(
        request, "console/accounts/invitation_refused.html", {"error": error}, status=error.status
    )
    if isinstance(error, TooMany):
        response["Retry-After"] = str(error.retry_after)
    return response
