"""What of promises leaves the console: links that show one, and reports by mail."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actors import require
from console.api.authentication import actor_of, user_of
from console.errors import Conflict, CovenantError, Invalid, NotFound, TooMany
from deployments.documents.sla_reports import language_of, promise_pdf
from deployments.documents.sla_words import promise_context
from deployments.selectors.objectives.sla import sla
from deployments.selectors.objectives.sla_portfolio import teams_of
from deployments.selectors.objectives.sla_subscriptions import shares_of, subscriptions_of
from deployments.selectors.traffic.endpoints import find_endpoint
from deployments.services.objectives.sla_shares import (
    Shared,
    open_share,
    revoke_share,
    share_sla,
    state_of,
)
from deployments.services.objectives.sla_subscriptions import (
    send_report_now,
    subscribe,
    unsubscribe,
)
from deployments.sla_forms import ReportForm, ShareForm
from deployments.views.sla import as_pdf, months_around


@require_http_methods(["GET", "POST"])
def shares(request: HttpRequest, environment: str, model: str) -> HttpResponse:
    """The links of a promise; a new one is shown this once."""
    actor = actor_of(request)
    endpoint = find_endpoint(environment, model, user=user_of(request))
    require(actor, "sla.share", endpoint.model.team_id)
    form, shared, status = ShareForm(request.POST or None), None, 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            shared = _share(form, environment, model, request)
            if shared is not None:
                form, status = ShareForm(), 201
    context = {
        "environment": environment,
        "model": model,
        "form": form,
        "shared": shared,
        "shares": [(one, state_of(one)) for one in shares_of(endpoint)],
    }
    response = render(request, "deployments/sla/shares.html", context, status=status)
    if shared is not None:
        response["Cache-Control"] = "no-store"
    return response


@require_POST
def share_revoke(request: HttpRequest, share_id: uuid.UUID) -> HttpResponse:
    """Take a link back."""
    share = revoke_share(
        share_id=share_id, reason=request.POST.get("reason", "")[:300], actor=actor_of(request)
    )
    messages.success(request, _("The link is revoked: it shows nothing any more."))
    names = (share.endpoint.environment.name, share.endpoint.model.name)
    return redirect("deployments:sla-shares", *names)


@require_http_methods(["GET", "POST"])
def reports(request: HttpRequest) -> HttpResponse:
    """One's own reports by mail, and a new one."""
    actor, person = actor_of(request), user_of(request)
    teams = teams_of(person)
    form = ReportForm(request.POST or None, person=person, teams=teams)
    status = 200
    if form.is_bound:
        status = 422
        if form.is_valid():
            try:
                subscribe(
                    environment=request.POST.get("environment", "")[:40],
                    model=request.POST.get("model", "")[:63],
                    team=form.cleaned_data["team"],
                    language=form.cleaned_data["language"],
                    actor=actor,
                )
            except (Invalid, Conflict) as error:
                form.add_refusal(error)
            else:
                messages.success(request, _("From the 1st on it comes by mail."))
                return redirect("deployments:sla-reports")
    context = {
        "form": form,
        "subscriptions": subscriptions_of(person),
        "address": person.email or "—",
        "mail": settings.MAIL_SERVER is not None,
    }
    return render(request, "deployments/sla/reports.html", context, status=status)


@require_POST
def report_end(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """End a report of one's own."""
    unsubscribe(subscription_id=subscription_id, actor=actor_of(request))
    messages.success(request, _("The report is not sent any more."))
    return redirect("deployments:sla-reports")


@require_POST
def report_now(request: HttpRequest, subscription_id: int) -> HttpResponse:
    """Have the last month sent at once."""
    try:
        job = send_report_now(subscription_id=subscription_id, actor=actor_of(request))
    except NotFound:
        raise
    except CovenantError as error:
        messages.error(request, f"{error.message} {error.hint}")
        return redirect("deployments:sla-reports")
    return redirect("console:job-detail", job.pk)


@login_not_required
@never_cache
@require_safe
def shared(request: HttpRequest, secret: str) -> HttpResponse:
    """What a link shows: one promise over a month, and nothing else."""
    now = timezone.now()
    try:
        share = open_share(secret=secret, address=_address(request), what="page")
        page = sla(share.endpoint, request.GET.get("month", ""), now)
        language = language_of(request.GET.get("lang", ""))
    except (NotFound, TooMany, Invalid) as error:
        return _nothing(request, error)
    with translation.override(language):
        context = {
            **promise_context(page, now),
            **months_around(page.first, now),
            "share": share,
            "lang": language,
        }
        return _unlisted(render(request, "deployments/sla/shared.html", context))


@login_not_required
@never_cache
@require_safe
def shared_pdf(request: HttpRequest, secret: str) -> HttpResponse:
    """The same as PDF."""
    try:
        share = open_share(secret=secret, address=_address(request), what="pdf")
        data, name = promise_pdf(
            share.endpoint,
            request.GET.get("month", ""),
            language=request.GET.get("lang", ""),
            now=timezone.now(),
        )
    except (NotFound, TooMany, Invalid) as error:
        return _nothing(request, error)
    return _unlisted(as_pdf(data, name))


def _share(form: ShareForm, environment: str, model: str, request: HttpRequest) -> Shared | None:
    try:
        return share_sla(
            environment=environment,
            model=model,
            days=form.cleaned_data["days"],
            note=form.cleaned_data["note"],
            actor=actor_of(request),
        )
    except (Invalid, Conflict) as error:
        form.add_refusal(error)
        return None


def _nothing(request: HttpRequest, error: CovenantError) -> HttpResponse:
    response = render(
        request, "deployments/sla/shared_nothing.html", {"error": error}, status=error.status
    )
    if isinstance(error, TooMany):
        response["Retry-After"] = str(error.retry_after)
    return _unlisted(response)


def _unlisted(response: HttpResponse) -> HttpResponse:
    """No search engine keeps it, and no page behind it learns its address."""
    response["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    response["Referrer-Policy"] = "no-referrer"
    response["Cache-Control"] = "no-store, private"
    return response


def _address(request: HttpRequest) -> str:
    return str(request.META.get("REMOTE_ADDR", ""))
